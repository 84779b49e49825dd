import { afterEach, beforeEach, vi } from 'vitest';

import type { LedgerEvent } from '../../src/ledger/contract/events.ts';
import type { Admit, LedgerStore, Settle } from '../../src/ledger/contract/ledger-store.ts';
import { ReliableStore, type ReliableStoreOptions } from '../../src/ledger/reliability/reliable-store.ts';
import { MINUTE, NOON, requestId, USAGE } from '../contracts/ledger-fixture.ts';
import { type RollbackStore, rollbackStore } from './rollback-store.ts';

/** Of the stores that the reliable ones stand before. */
export const clock: { now: number } = { now: NOON };
const opened: LedgerStore[] = [];

/** Fakes the time of each test, and closes what it opened. */
export function inFakeTime(): void {
  beforeEach(() => {
    vi.useFakeTimers({ now: NOON });
    clock.now = NOON;
  });

  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close();
    vi.useRealTimers();
  });
}

export function admission(n: number, want: bigint, more: Partial<Admit> = {}): Admit {
  return {
    account: 'acme',
    key: 'k1',
    externalKey: true,
    requestId: requestId(n),
    want,
    min: want,
    leaseMs: 10 * MINUTE,
    tokens: 0,
    notAfter: Infinity,
    ...more,
  };
}

export function settlement(n: number, amount: bigint, more: Partial<Settle> = {}): Settle {
  return {
    account: 'acme',
    requestId: requestId(n),
    amount,
    key: 'k1',
    model: 'some/model',
    usage: USAGE,
    force: true,
    ...more,
  };
}

export function reliable(
  store: LedgerStore,
  options: Partial<ReliableStoreOptions> = {},
): { store: ReliableStore; events: LedgerEvent[] } {
  const events: LedgerEvent[] = [];
  const made = new ReliableStore({
    store,
    tell: (event) => events.push(event),
    now: () => clock.now,
    ...options,
  });
  opened.push(made);
  return { store: made, events };
}

/** Lets everything happen that waits for no timer. */
export async function settled(): Promise<void> {
  await vi.advanceTimersByTimeAsync(0);
}

/** Time passes, for the store as for its users. */
export async function pass(ms: number): Promise<void> {
  for (const end = clock.now + ms; clock.now < end;) {
    const step = Math.min(50, end - clock.now);
    clock.now += step;
    await vi.advanceTimersByTimeAsync(step);
  }
}

export async function openAccount(
  credits: bigint,
  options: Partial<ReliableStoreOptions> = {},
): Promise<{ primary: RollbackStore; store: ReliableStore; events: LedgerEvent[] }> {
  const primary = rollbackStore(clock);
  const made = reliable(primary, options);
  await made.store.grant({ account: 'acme', id: 'opening', amount: credits });
  return { primary, ...made };
}

/** A replica that had `copied` commands is promoted, and everybody connects to it. */
export async function failOver(primary: RollbackStore, copied: number): Promise<void> {
  await primary.rollBackTo(copied);
  primary.loseConnection();
}
