import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { ChatCompletionsRouter } from '../../../src/index.ts';
import { documentedBlock } from '../../helpers/documented.ts';

const ROOT = join(import.meta.dirname, '../../..');
// Below `test/e2e`, which has the package that verifies.
const FOLDER = join(ROOT, 'test/e2e/.cache/webhooks');

interface Sender {
  readonly router: ChatCompletionsRouter;
  readonly close: () => Promise<void>;
}
interface Receiver {
  readonly receiver: Server;
  readonly events: readonly { readonly type: string; readonly data: object }[];
}

describe('docs/webhooks.md', () => {
  let sender: Sender;
  let receiver: Receiver;

  beforeAll(async () => {
    mkdirSync(FOLDER, { recursive: true });
    for (const name of ['sender.ts', 'receiver.ts']) {
      const source = documentedBlock('webhooks.md', name)
        .replaceAll("'chat-completions-router/webhooks'", `'${ROOT}/src/webhooks.ts'`)
        .replaceAll("'chat-completions-router'", `'${ROOT}/src/index.ts'`);
      writeFileSync(join(FOLDER, name), source);
    }
    process.env['CREDITS_STORE'] = 'memory:';
    process.env['WEBHOOK_SECRET'] = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;
    process.env['WEBHOOK_DIR'] = join(FOLDER, 'waiting');
    receiver = (await import(join(FOLDER, 'receiver.ts'))) as Receiver;
    receiver.receiver.listen(0, '127.0.0.1');
    await once(receiver.receiver, 'listening');
    const { port } = receiver.receiver.address() as AddressInfo;
    process.env['WEBHOOK_URL'] = `http://127.0.0.1:${port}/`;
    sender = (await import(join(FOLDER, 'sender.ts'))) as Sender;
  });

  afterAll(async () => {
    await sender.close();
    receiver.receiver.closeAllConnections();
    receiver.receiver.close();
  });

  it('sends events that the library of Standard Webhooks verifies', async () => {
    const { router } = sender;
    await router.credits.grant('acme', '6.00', { id: 'welcome' });
    const hold = await router.holds.open({ account: 'acme', model: 'job', amount: '2.00' });
    await hold.settle('2.00');
    await expect
      .poll(() => receiver.events.map(({ type }) => type).toSorted())
      .toEqual(['balance_below', 'settled']);
    expect(receiver.events.find(({ type }) => type === 'settled')?.data).toMatchObject({ charged: '2.00' });
  });

  it('answers 400 to what another has signed', async () => {
    const { port } = receiver.receiver.address() as AddressInfo;
    const forged = await fetch(`http://127.0.0.1:${port}/`, {
      method: 'POST',
      body: '{"type":"settled"}',
      headers: {
        'webhook-id': 'msg_1',
        'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
        'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}`,
      },
    });
    expect(forged.status).toBe(400);
  });
});
