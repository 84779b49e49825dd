import { AsyncLocalStorage } from 'node:async_hooks';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { LedgerEvent } from '../../../src/ledger/contract/events.ts';
import { Maintenance } from '../../../src/ledger/operations/maintenance.ts';
import {
  type JournalLine,
  type LedgerStore,
  StoreUnavailableError,
} from '../../../src/ledger/contract/ledger-store.ts';
import { ReliableStore } from '../../../src/ledger/reliability/reliable-store.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { DAY, HOUR, MINUTE, NOON, requestId } from '../../contracts/ledger-fixture.ts';
import { admission, settlement } from '../../helpers/redis-ledger.ts';

/** A memory store that counts what it is asked, and may be away. */
class CountingStore extends MemoryStore {
  sweeps = 0;
  isAway = false;
  readonly budgets: number[] = [];
  readonly pages: number[] = [];
  probes = 0;

  override async sweep(budget: number): Promise<number> {
    this.sweeps += 1;
    this.budgets.push(budget);
    if (this.isAway) throw new StoreUnavailableError('no');
    return super.sweep(budget);
  }

  override async journal(account: string, afterSeq: bigint, limit: number): Promise<readonly JournalLine[]> {
    const lines = await super.journal(account, afterSeq, limit);
    if (limit > 1) this.pages.push(lines.length);
    else this.probes += 1;
    return lines;
  }
}

/** Known to what a test does, and not to a timer that another file left in this worker. */
const inTest = new AsyncLocalStorage<true>();
const realSetTimeout = setTimeout;

/** Hours pass in ms here: a foreign timer that arms itself again would take all of them in its own steps, so it stays in real time. */
function withOwnTimersOnly(test: () => Promise<void>): () => Promise<void> {
  return () => {
    const fakeSetTimeout = setTimeout;
    vi.spyOn(globalThis, 'setTimeout').mockImplementation((...args: Parameters<typeof setTimeout>) =>
      (inTest.getStore() ? fakeSetTimeout : realSetTimeout)(...args),
    );
    return inTest.run(true, test);
  };
}

let store: CountingStore;
let events: LedgerEvent[];
let errors: Error[];
let opened: Maintenance[];

beforeEach(() => {
  // With `performance`: a timeout that another file left behind would else be armed again for ever.
  vi.useFakeTimers({ now: NOON, toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] });
  store = new CountingStore({ now: Date.now });
  [events, errors, opened] = [[], [], []];
});

afterEach(async () => {
  for (const each of opened) await each.close();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** Every pause is the average one, and the first round over all journals is after half an hour. */
function open({
  journalRetentionDays = 90,
  usageRetentionDays = 400,
  random = (): number => 0.5,
  of = store,
}: {
  journalRetentionDays?: number;
  usageRetentionDays?: number;
  random?: () => number;
  of?: LedgerStore;
} = {}): Maintenance {
  const housekeeping = new Maintenance({
    store: of,
    emit: (event) => events.push(event),
    onError: (error) => errors.push(error),
    journalRetentionDays,
    usageRetentionDays,
    random,
  });
  opened.push(housekeeping);
  return housekeeping;
}

async function grantDaily(days: number): Promise<void> {
  for (let day = 1; day <= days; day++) {
    await store.grant({ account: 'acme', id: `g${day}`, amount: 10n });
    vi.setSystemTime(Date.now() + DAY);
  }
}

const positions = async (): Promise<bigint[]> =>
  (await store.journal('acme', 0n, 1000)).map((line) => line.seq);

describe('housekeeping', () => {
  it('removes end users and sessions that nothing needs any more', async () => {
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    const endUsers = { budgets: [{ amount: 10n, per: 'day' as const }] };
    await store.updateKey({ account: 'acme', key: '@', version: 0, name: '', endUsers });
    const session = { account: 'acme', key: 'ses-a', hash: 'a'.repeat(64), name: '', expiresAt: NOON + HOUR };
    await store.createKey(session);
    await store.admit({ ...admission(1, 1n), endUser: 'alice' });
    await store.settle(settlement(1, 1n));
    open().start();
    const rows = async (): Promise<number[]> => {
      const state = await store.snapshot('acme');
      return [state?.endUsers.length ?? 0, state?.keys.filter(({ key }) => key === 'ses-a').length ?? 0];
    };
    await vi.advanceTimersByTimeAsync(HOUR);
    expect(await rows()).toEqual([1, 1]);
    vi.setSystemTime(Date.now() + 2 * DAY);
    await vi.advanceTimersByTimeAsync(MINUTE);
    expect(await rows()).toEqual([0, 0]);
  });

  it('begins when it is started, not when it is made', async () => {
    const housekeeping = open();
    await vi.advanceTimersByTimeAsync(10 * MINUTE);
    expect(store.sweeps).toBe(0);
    housekeeping.start();
    housekeeping.start();
    await vi.advanceTimersByTimeAsync(10 * MINUTE);
    expect(store.sweeps).toBe(20);
  });

  it('pauses 15 to 45 seconds, so that gateways do not keep step', async () => {
    open({ random: () => 0 }).start();
    await vi.advanceTimersByTimeAsync(15_000);
    expect(store.sweeps).toBe(1);
    const other = new CountingStore({ now: Date.now });
    store = other;
    open({ random: () => 0.999_999 }).start();
    await vi.advanceTimersByTimeAsync(44_000);
    expect(other.sweeps).toBe(0);
    await vi.advanceTimersByTimeAsync(1000);
    expect(other.sweeps).toBe(1);
  });

  it('ends leases that are not renewed, and expires credits, of accounts without requests', async () => {
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await store.grant({ account: 'acme', id: 'g2', amount: 50n, expiresAt: NOON + HOUR, priority: 99 });
    await store.admit(admission(1, 30n));
    open().start();
    await vi.advanceTimersByTimeAsync(HOUR + MINUTE);
    expect(await store.snapshot('acme')).toMatchObject({ held: 0n, available: 100n, expired: 50n });
  });

  it('goes on after a second where more is due than it does at once', async () => {
    await store.grant({ account: 'acme', id: 'g1', amount: 10_000n });
    for (let n = 0; n < 2500; n++) await store.admit({ ...admission(n, 1n), leaseMs: 1000 });
    open().start();
    await vi.advanceTimersByTimeAsync(30_000);
    expect((await store.snapshot('acme'))?.held).toBe(1500n);
    await vi.advanceTimersByTimeAsync(2000);
    expect((await store.snapshot('acme'))?.held).toBe(0n);
    expect(store.budgets).toEqual([1000, 1000, 1000]);
  });

  it('tells of a failure once, until it works again', async () => {
    open().start();
    store.isAway = true;
    await vi.advanceTimersByTimeAsync(5 * MINUTE);
    store.isAway = false;
    await vi.advanceTimersByTimeAsync(MINUTE);
    expect(errors).toHaveLength(1);
    store.isAway = true;
    await vi.advanceTimersByTimeAsync(5 * MINUTE);
    expect(errors).toHaveLength(2);
    expect(errors[0]?.cause).toBeInstanceOf(StoreUnavailableError);
  });

  it('stops when it is closed, after what is under way', async () => {
    const housekeeping = open();
    housekeeping.start();
    let answer = (): void => {};
    store.sweep = () =>
      new Promise((resolve) => {
        store.sweeps += 1;
        answer = () => resolve(0);
      });
    await vi.advanceTimersByTimeAsync(30_000);
    let isClosed = false;
    const closed = housekeeping.close().then(() => (isClosed = true));
    await vi.advanceTimersByTimeAsync(MINUTE);
    expect(isClosed).toBe(false);
    answer();
    await closed;
    housekeeping.start();
    await vi.advanceTimersByTimeAsync(MINUTE);
    expect(store.sweeps).toBe(1);
  });
});

describe('the daily round over all journals', () => {
  it('folds lines that are older than the full days to keep, and says so', async () => {
    await grantDaily(100);
    open().start();
    await vi.advanceTimersByTimeAsync(29 * MINUTE);
    expect(events).toEqual([]);
    await vi.advanceTimersByTimeAsync(2 * MINUTE);
    // Line 11 is of the day 90 days ago: today is the hundred and first.
    expect(await positions()).toEqual(Array.from({ length: 90 }, (_, n) => BigInt(n + 11)));
    expect(events).toEqual([{ type: 'journal_compacted', account: 'acme', through: '10' }]);
    expect((await store.snapshot('acme'))?.compacted).toMatchObject({ seq: 10n, granted: 100n });
  });

  it('folds no part of a day', async () => {
    await store.grant({ account: 'acme', id: 'g1', amount: 1n });
    vi.setSystemTime(NOON + 91 * DAY - 12 * HOUR - 1 - HOUR);
    open().start();
    await vi.advanceTimersByTimeAsync(HOUR);
    expect(await positions()).toEqual([1n]);
    await vi.advanceTimersByTimeAsync(DAY);
    expect(await positions()).toEqual([]);
  });

  it('comes again every day', async () => {
    open({ journalRetentionDays: 9 }).start();
    await vi.advanceTimersByTimeAsync(HOUR);
    await store.grant({ account: 'acme', id: 'g1', amount: 1n });
    vi.setSystemTime(Date.now() + 8 * DAY);
    await vi.advanceTimersByTimeAsync(MINUTE);
    expect(await positions()).toEqual([1n]);
    vi.setSystemTime(Date.now() + 2 * DAY);
    await vi.advanceTimersByTimeAsync(MINUTE);
    expect(await positions()).toEqual([]);
  });

  /** Starts so many with a store of their own over the same one; resolves to how many rounds each has made. */
  const openMany = async (count: number): Promise<{ rounds: number[]; started: Maintenance[] }> => {
    await store.grant({ account: 'acme', id: 'g1', amount: 1n });
    const rounds = Array.from({ length: count }, () => 0);
    const started = rounds.map((_, n) => {
      const own = new ReliableStore({ store, tell: () => {} });
      const prune = own.prune.bind(own);
      own.prune = async (account) => {
        rounds[n]! += 1;
        return prune(account);
      };
      const each = open({ of: own });
      each.start();
      return each;
    });
    return { rounds, started };
  };

  it('is made by one process of those that share the store', async () => {
    const { rounds } = await openMany(3);
    for (const sum of [1, 2, 3]) {
      await vi.advanceTimersByTimeAsync(20 * HOUR);
      expect(rounds.reduce((total, each) => total + each)).toBe(sum);
    }
  });

  it('is made by each of them where the store has no claims', async () => {
    Object.assign(store, { claim: undefined });
    const { rounds } = await openMany(3);
    await vi.advanceTimersByTimeAsync(HOUR);
    expect(rounds).toEqual([1, 1, 1]);
  });

  it('goes on in another process once that which makes it is closed, or 20 hours after it died', async () => {
    const { rounds, started } = await openMany(2);
    for (let n = 0; n < 150; n++) await store.grant({ account: `a${n}`, id: 'g1', amount: 1n });
    await vi.advanceTimersByTimeAsync(30 * MINUTE);
    expect(rounds).toEqual([100, 0]);
    await started[0]?.close();
    await vi.advanceTimersByTimeAsync(HOUR + MINUTE);
    expect(rounds).toEqual([100, 151]);
    const other = await openMany(1);
    expect(await store.claim('daily round', 0)).toBeUndefined();
    expect(await store.claim('daily round', 20 * HOUR)).toBe(Date.now());
    await vi.advanceTimersByTimeAsync(19 * HOUR);
    expect(other.rounds).toEqual([0]);
    await vi.advanceTimersByTimeAsync(3 * HOUR);
    expect(other.rounds[0]! + rounds[1]! - 151).toBe(151);
  });

  it('folds nothing where all is to be kept', async () => {
    await grantDaily(3);
    vi.setSystemTime(NOON + 4000 * DAY);
    open({ journalRetentionDays: Infinity }).start();
    await vi.advanceTimersByTimeAsync(HOUR);
    expect(await positions()).toEqual([1n, 2n, 3n]);
  });

  it('folds the usage of days that are over so long, and keeps what they charged', async () => {
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    for (const [n, day] of [0, 99, 100, 101].entries()) {
      vi.setSystemTime(NOON + day * DAY);
      await store.settle({ ...settlement(n, 3n), requestId: requestId(n, NOON + day * DAY) });
    }
    vi.setSystemTime(NOON + 500 * DAY);
    const housekeeping = open();
    housekeeping.start();
    await vi.advanceTimersByTimeAsync(HOUR);
    const { usage, usageCompacted } = (await store.snapshot('acme'))!;
    expect(usage.map(({ day }) => day)).toEqual(['2026-06-12', '2026-06-13']);
    expect(usageCompacted).toBe(6n);
  });

  it('keeps all usage where all is to be kept', async () => {
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await store.settle(settlement(1, 3n));
    vi.setSystemTime(NOON + 4000 * DAY);
    open({ usageRetentionDays: Infinity }).start();
    await vi.advanceTimersByTimeAsync(HOUR);
    expect((await store.snapshot('acme'))?.usage).toHaveLength(1);
  });

  it('reads at most 10,000 lines at once', async () => {
    await store.grant({ account: 'acme', id: 'g1', amount: 30_000n });
    for (let n = 1; n < 25_500; n++) await store.settle(settlement(n, 1n));
    await store.grant({ account: 'zeta', id: 'g1', amount: 1n });
    vi.setSystemTime(NOON + 200 * DAY);
    open().start();
    while (store.pages.length === 0) await vi.advanceTimersByTimeAsync(1000);
    expect(store.pages).toEqual(Array.from({ length: 10 }, () => 1000));
    expect(store.probes).toBeLessThan(15);
    await vi.advanceTimersByTimeAsync(2000);
    expect(store.pages).toHaveLength(27);
    expect(events.slice(0, 3)).toEqual([
      { type: 'journal_compacted', account: 'acme', through: '10000' },
      { type: 'journal_compacted', account: 'acme', through: '20000' },
      { type: 'journal_compacted', account: 'acme', through: '25500' },
    ]);
  });

  it('visits a hundred accounts at once', async () => {
    for (let n = 0; n < 250; n++) await store.grant({ account: `a${n}`, id: 'g1', amount: 1n });
    const visited: string[] = [];
    store.journal = async (account, after) => {
      if (after === 0n) visited.push(account);
      return [];
    };
    open().start();
    await vi.advanceTimersByTimeAsync(30 * MINUTE);
    expect(visited).toHaveLength(100);
    await vi.advanceTimersByTimeAsync(2000);
    expect(visited).toHaveLength(250);
  });

  it(
    'tells of a journal of 50,000 lines, and again when it has twice as many',
    withOwnTimersOnly(async () => {
      let length = 49_999n;
      store.journal = async (_account, after, limit) => {
        const count = Math.max(0, Math.min(limit, Number(length - after)));
        return Array.from({ length: count }, (_, n) => {
          const seq = after + BigInt(n + 1);
          return { type: 's', seq, at: Date.now(), id: requestId(1), amount: 0n, available: 0n };
        });
      };
      await store.grant({ account: 'acme', id: 'g1', amount: 1n });
      open().start();
      for (const lines of [49_999n, 50_000n, 60_000n, 100_000n, 100_000n, 10n, 50_000n]) {
        length = lines;
        await vi.advanceTimersByTimeAsync(DAY + HOUR);
      }
      expect(events).toEqual(
        [50_000, 100_000, 50_000].map((lines) => ({ type: 'journal_long', account: 'acme', lines })),
      );
    }),
  );
});
