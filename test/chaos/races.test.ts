import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { describe, expect, it, onTestFinished } from 'vitest';

import type { JournalLine, LedgerStore } from '../../src/ledger/contract/ledger-store.ts';
import { RequestIds } from '../../src/ledger/contract/request-ids.ts';
import { USAGE } from '../contracts/ledger-fixture.ts';
import { startRedis } from '../helpers/redis-server.ts';
import { closeBooks, openBooks } from './books.ts';

describe('a settlement within 5 ms of the end of its lease, 500 times and more', { timeout: 30_000 }, () => {
  it.each(['Redis', 'SQLite'])('in %s, is charged once, and what it says', async (kind) => {
    const url = await openUrl(kind);
    const [store, other] = [openBooks(url), openBooks(url)];
    await store.grant({ account: 'acct', id: 'opening', amount: 10_000_000n });
    const ids = new RequestIds();
    const amounts = new Map<string, bigint>();

    const sweeping = new AbortController();
    const swept = sweepUntil(other, sweeping.signal);
    const race = async (n: number): Promise<void> => {
      const requestId = ids.next();
      const common = { account: 'acct', key: 'k1', requestId };
      const leaseMs = 20;
      const { code } = await store.admit({
        ...common,
        externalKey: true,
        want: 1000n,
        min: 1000n,
        leaseMs,
        tokens: 0,
        notAfter: Infinity,
      });
      expect(code).toBe('ok');
      // The lease ends by the time of this: on a busy machine, that is more than 5 ms after its admission.
      const { now } = await store.extend({
        account: 'acct',
        requestId,
        hold: 1000n,
        leaseMs,
        checkpoint: 300n,
      });
      // Redis and this process have one clock.
      await pause(Math.max(0, now + leaseMs + (n % 11) - 5 - Date.now()));
      const amount = BigInt(n % 1500);
      amounts.set(requestId, amount);
      const settled = await store.settle({
        ...common,
        amount,
        model: 'some/model',
        usage: USAGE,
        force: true,
      });
      expect(settled).toMatchObject({ code: 'ok', charged: amount });
    };
    // Each order must occur, or this shows nothing: in time, and after the checkpoint was charged.
    for (let round = 0; round < 50 || (round < 400 && !(await hasBoth(store))); round++) {
      await Promise.all(Array.from({ length: 10 }, (_, n) => race(round * 10 + n)));
    }
    sweeping.abort();
    await swept;

    const { charges, lines } = await closeBooks(store);
    expect(charges).toEqual(amounts);
    const { s: inTime = 0, l: late = 0, e: expired = 0 } = countTypes(lines);
    expect(Math.min(inTime, late)).toBeGreaterThan(20);
    expect(late).toBe(expired);
    expect(inTime + late).toBe(amounts.size);
  });
});

async function hasBoth(store: LedgerStore): Promise<boolean> {
  const { s: inTime = 0, l: late = 0 } = countTypes(await store.journal('acct', 0n, Infinity));
  return Math.min(inTime, late) > 20;
}

function countTypes(lines: readonly JournalLine[]): Partial<Record<JournalLine['type'], number>> {
  const counts: Partial<Record<JournalLine['type'], number>> = {};
  for (const { type } of lines) counts[type] = (counts[type] ?? 0) + 1;
  return counts;
}

async function sweepUntil(store: LedgerStore, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await store.sweep(100);
    await pause(1);
  }
}

async function openUrl(kind: string): Promise<string> {
  if (kind === 'SQLite') {
    const folder = mkdtempSync(join(tmpdir(), 'ccr-chaos-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    return `sqlite:${join(folder, 'credits.db')}`;
  }
  const server = await startRedis();
  onTestFinished(() => server.kill());
  return server.url;
}
