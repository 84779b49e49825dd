import { expect, onTestFinished } from 'vitest';

import type { AccountState, JournalLine, LedgerStore } from '../../src/ledger/contract/ledger-store.ts';
import { openStore } from '../../src/ledger/stores/open-store.ts';
import { RedisStore } from '../../src/ledger/stores/redis/redis-store.ts';
import { findingsOf } from '../helpers/audit.ts';
import type { Reply } from './client.ts';

/** What the usual answer costs: 9 prompt tokens at 1,000 and 12 completion tokens at 3,000 nano-dollars. */
export const COST = 45_000n;

/** Account `acct` as it is once all is over. */
export interface Books {
  readonly state: AccountState;
  /** What was charged for each request, in nano-dollars. */
  readonly charges: ReadonlyMap<string, bigint>;
  readonly lines: readonly JournalLine[];
}

/** The store, looked at by someone who takes no part, and has time; closed with the test. */
export function openBooks(url: string): LedgerStore {
  const isRedis = url.startsWith('redis');
  const store = isRedis ? new RedisStore({ client: url, timeoutMs: 10_000 }) : openStore(url);
  onTestFinished(() => store.close());
  return store;
}

/** Waits until nothing is held, and finds nothing wrong with any account of the store: I1 to I6, and I7 by being there. */
export async function closeBooks(store: LedgerStore, timeout = 10_000): Promise<Books> {
  const held = async (): Promise<bigint | undefined> =>
    (await store.balance('acct').catch(() => undefined))?.held;
  await expect.poll(held, { timeout, interval: 50 }).toBe(0n);
  expect(await findingsOf(store)).toEqual([]);
  const state = await store.snapshot('acct');
  const lines = await store.journal('acct', 0n, Infinity);
  if (!state) throw new Error('There is no account acct');
  expect(state.frozen).toBe(false);
  const charges = new Map<string, bigint>();
  for (const { type, id, amount } of lines) {
    if (type !== 'g') charges.set(id, (charges.get(id) ?? 0n) + amount);
  }
  return { state, charges, lines };
}

/** Of each whole answer the usual cost was charged, once, and nothing for what was refused. */
export function expectChargedOnce({ charges, lines }: Books, replies: readonly Reply[]): void {
  const wrong = replies.filter(({ status, requestId, isWhole }) => {
    if (status === 200 && isWhole) return charges.get(requestId) !== COST;
    return status >= 400 && (charges.get(requestId) ?? 0n) > 0n;
  });
  expect(wrong).toEqual([]);
  const charged = lines.filter(({ type }) => type !== 'g').map(({ id }) => id);
  expect(charged).toHaveLength(new Set(charged).size);
}
