import { setTimeout as pause } from 'node:timers/promises';

import {
  type AccountState,
  verifyLedger,
  type Finding,
  type JournalLine,
  type LedgerStore,
  RedisStore,
  SqliteStore,
} from '../../src/index.ts';

/** An account as it is once all is over. */
export interface Account {
  readonly name: string;
  readonly state: AccountState;
  readonly lines: readonly JournalLine[];
}

export interface Books {
  readonly accounts: readonly Account[];
  /** Of the router's own audit. */
  readonly findings: readonly Finding[];
  /** How many requests the store still knows a day later. */
  readonly rememberedRequests: number;
  /** Accounts that had money held when the wait for it had ended. */
  readonly stuck: readonly string[];
}

const DAY_MS = 25 * 60 * 60 * 1000;
const SWEEPS_MS = 60_000;
const POLL_MS = 500;

/** Waits until nothing is held, and reads it all. */
export async function readBooks(url: string, names: readonly string[], waitMs: number): Promise<Books> {
  const store = openBooks(url);
  try {
    const stuck = await untilReleased(store, names, waitMs);
    const findings: Finding[] = [];
    for await (const account of verifyLedger(store)) findings.push(...account.findings);
    const accounts: Account[] = [];
    for (const name of names) {
      const state = await store.snapshot(name);
      if (state) accounts.push({ name, state, lines: await store.journal(name, 0n, Infinity) });
    }
    return { accounts, findings, stuck, rememberedRequests: await rememberedADayLater(url, names) };
  } finally {
    await store.close();
  }
}

/** The store, looked at by one that takes no part, and has time. */
function openBooks(url: string, now: () => number = Date.now): LedgerStore {
  if (url.startsWith('sqlite:')) return new SqliteStore(url.slice('sqlite:'.length), { now });
  return new RedisStore({ client: url, timeoutMs: 30_000, now });
}

async function rememberedADayLater(url: string, names: readonly string[]): Promise<number> {
  const store = openBooks(url, () => Date.now() + DAY_MS);
  try {
    const endsAt = Date.now() + SWEEPS_MS;
    while (Date.now() < endsAt && (await store.sweep(10_000)) > 0);
    const states = await Promise.all(names.map((name) => store.snapshot(name)));
    return states.reduce((sum, state) => sum + (state?.requests.length ?? 0), 0);
  } finally {
    await store.close();
  }
}

/** @returns the accounts that still had something held */
async function untilReleased(
  store: LedgerStore,
  names: readonly string[],
  waitMs: number,
): Promise<readonly string[]> {
  const endsAt = Date.now() + waitMs;
  for (;;) {
    const held = await Promise.all(
      names.map(async (name) =>
        (await store.balance(name).catch(() => undefined))?.held === 0n ? [] : [name],
      ),
    );
    const stuck = held.flat();
    if (stuck.length === 0 || Date.now() > endsAt) return stuck;
    await pause(POLL_MS);
  }
}
