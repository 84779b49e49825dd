import { afterEach, expect, it, vi } from 'vitest';

import { type Gateway, QUESTION, startGateway } from '../helpers/gateway.ts';

const MIB = 1024 * 1024;

let gateway: Gateway;
afterEach(() => gateway.close());

/** A body of a little less than 1 MiB, which comes in many packets. */
const large = { ...QUESTION, user: 'x'.repeat(MIB - 1000) };

it('bodies that have come whole hold what they may, those of one key a quarter, until the ledger admits them', async () => {
  gateway = await startGateway({ maxBodyBytes: MIB, maxBufferedBytes: 4 * MIB });
  const ledger = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const { store } = gateway;
  const admit = store.admit.bind(store);
  vi.spyOn(store, 'admit').mockImplementationOnce(async (command) => {
    asked.resolve();
    await ledger.promise;
    return admit(command);
  });

  const first = gateway.post(large);
  await asked.promise;
  const second = await gateway.post(large);
  expect(second.status).toBe(503);
  expect(await second.json()).toMatchObject({ error: { code: 'request_buffers_full' } });
  ledger.resolve();
  expect((await first).status).toBe(200);
  expect((await gateway.post(large)).status).toBe(200);
});
