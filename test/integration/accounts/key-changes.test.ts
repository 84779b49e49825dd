import { expect, it, onTestFinished } from 'vitest';

import type { Answer } from '../../../src/async/answer.ts';
import type { Admit, AdmitResult } from '../../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';

/** A store whose keys are changed by another process just before they are asked for. */
class ChangingStore extends MemoryStore {
  changes = 0;
  admits = 0;

  override admit(command: Admit): Answer<AdmitResult> {
    this.admits += 1;
    if (this.changes === 0) return super.admit(command);
    this.changes -= 1;
    return { code: 'changed', now: Date.now(), seq: 0n };
  }
}

async function open(changes: number): Promise<{ store: ChangingStore; gateway: Gateway }> {
  const store = new ChangingStore();
  const gateway = await startGateway({ store, provider: { body: { set: { seed: 1 } } } });
  onTestFinished(() => gateway.close());
  store.changes = changes;
  return { store, gateway };
}

it('a request whose key changes four times while it is admitted is planned again, held once and charged once', async () => {
  const { store, gateway } = await open(4);
  const settled = gateway.nextSettled();
  expect((await gateway.post(QUESTION)).status).toBe(200);
  expect(await settled).toMatchObject({ voided: false });
  expect(store.admits).toBe(5);
  expect(gateway.settled).toHaveLength(1);
  expect(await gateway.router.credits.balance('acct')).toMatchObject({ held: '0.00' });
});

it('a request whose key goes on changing is refused after five times, for a while, and holds nothing', async () => {
  const { store, gateway } = await open(Infinity);
  const refused = await gateway.post(QUESTION);
  expect(refused.status).toBe(503);
  expect(await refused.json()).toMatchObject({ error: { code: 'credit_store_unavailable' } });
  expect(store.admits).toBe(5);
  expect(await gateway.router.credits.balance('acct')).toMatchObject({ held: '0.00', totalUsed: '0.00' });
  expect(gateway.provider.received).toHaveLength(0);
});
