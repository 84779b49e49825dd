import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';

import { ClockSteps, type ClockReading } from '../../../src/ledger/engine/clock-steps.ts';
import type { LedgerStore } from '../../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { LeaseHorizon } from '../../../src/ledger/stores/redis/lease-horizon.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { SqliteStore } from '../../../src/ledger/stores/sqlite/sqlite-store.ts';
import { hashOf, HOUR, MINUTE, NOON, requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import { findingsOf } from '../../helpers/audit.ts';
import { namespace } from '../../helpers/redis-ledger.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

const SECOND = 1000;
const LEASE = 2 * MINUTE;
const HEARTBEAT = 30 * SECOND;

/** A wall clock, and a clock that goes on as time does. Both begin somewhere. */
class Clocks {
  wall = NOON;
  elapsed = 7000;

  pass(ms: number): void {
    this.wall += ms;
    this.elapsed += ms;
  }

  /** As a store of a process that starts now has them. */
  ofProcess(): { now: () => number; elapsed: () => number } {
    const startedAt = this.elapsed;
    return { now: () => this.wall, elapsed: () => this.elapsed - startedAt };
  }
}

let server: RedisServer;
let clocks: Clocks;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());
beforeEach(() => {
  clocks = new Clocks();
});

/** Makes a ledger, and then stores that share it, as processes do. */
const LEDGERS: Readonly<Record<string, () => () => LedgerStore>> = {
  MemoryStore: () => {
    const only = new MemoryStore(clocks.ofProcess());
    return () => only;
  },
  SqliteStore: () => {
    const folder = mkdtempSync(join(tmpdir(), 'ccr-clock-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    return () => closing(new SqliteStore(join(folder, 'credits.db'), clocks.ofProcess()));
  },
  RedisStore: () => {
    const keyPrefix = namespace();
    return () => closing(new RedisStore({ client: server.url, keyPrefix, ...clocks.ofProcess() }));
  },
};

function closing<Store extends LedgerStore>(store: Store): Store {
  onTestFinished(() => store.close());
  return store;
}

async function open(store: LedgerStore): Promise<void> {
  await store.grant({ account: 'acme', id: 'g1', amount: 1000n });
  const limits = { concurrentRequests: 3 };
  await store.createKey({ account: 'acme', key: 'k1', hash: hashOf('k1'), name: 'n', limits });
}

function admit(store: LedgerStore, n: number): ReturnType<LedgerStore['admit']> {
  return store.admit({
    account: 'acme',
    key: 'k1',
    requestId: requestId(n, clocks.wall),
    want: 10n,
    min: 10n,
    leaseMs: LEASE,
    tokens: 0,
    notAfter: Infinity,
  });
}

const renew = (store: LedgerStore, id: string): ReturnType<LedgerStore['extend']> =>
  store.extend({ account: 'acme', requestId: id, hold: 10n, leaseMs: LEASE, checkpoint: 1n });

const settle = (store: LedgerStore, id: string): ReturnType<LedgerStore['settle']> =>
  store.settle({
    account: 'acme',
    requestId: id,
    amount: 7n,
    key: 'k1',
    model: 'm',
    usage: USAGE,
    force: false,
  });

const running = async (store: LedgerStore): Promise<number | undefined> =>
  (await store.snapshot('acme'))?.keys.find(({ key }) => key === 'k1')?.running;

describe.each(Object.keys(LEDGERS))('a step of the clock of a %s', (name) => {
  it.each([
    ['an hour forward', HOUR],
    ['121 seconds forward', 121 * SECOND],
    ['an hour back', -HOUR],
    ['to and fro', 0],
  ])('ends no lease of a request that runs: %s', async (_how, step) => {
    const another = LEDGERS[name]!();
    const [one, two, three] = [another(), another(), another()];
    await open(one);
    for (const store of [two, three]) await store.sweep(100);
    const ids = [1, 2, 3].map((n) => requestId(n, clocks.wall));
    for (const n of [1, 2, 3]) expect(await admit(one, n)).toMatchObject({ code: 'ok' });

    for (let beat = 0; beat < 10; beat++) {
      clocks.pass(HEARTBEAT);
      if (beat === 2) clocks.wall += step;
      if (step === 0) clocks.wall += beat % 2 === 0 ? HOUR : -HOUR;
      // Who comes first has not renewed anything.
      expect(await two.sweep(100), `beat ${beat}`).toBe(0);
      expect(await admit(three, 10 + beat)).toMatchObject({ code: 'concurrency' });
      for (const id of ids) expect(await renew(one, id)).toMatchObject({ code: 'ok' });
      expect(await running(one)).toBe(3);
    }
    for (const id of ids) expect(await settle(one, id)).toMatchObject({ code: 'ok', charged: 7n });
    expect((await one.journal('acme', 0n, 100)).map(({ type }) => type)).toEqual(['g', 's', 's', 's']);
    expect(await admit(three, 30)).toMatchObject({ code: 'ok' });
    expect(await findingsOf(one)).toEqual([]);
  });

  it('leaves credits, which expire by the wall clock, as they were', async () => {
    const store = LEDGERS[name]!()();
    await open(store);
    await admit(store, 1);
    await store.grant({ account: 'acme', id: 'g2', amount: 5n, expiresAt: NOON + HOUR });
    clocks.wall += HOUR;
    await store.sweep(100);
    expect(await store.balance('acme')).toMatchObject({ expired: 5n, held: 10n });
  });

  it('lets a dead lease end, two minutes or a little more after it was renewed last', async () => {
    const another = LEDGERS[name]!();
    const [dead, lives] = [another(), another()];
    await open(lives);
    await admit(dead, 1);
    clocks.pass(HEARTBEAT);
    await lives.sweep(100);
    clocks.wall += HOUR;
    const ended: number[] = [];
    for (let passed = HEARTBEAT; passed <= 4 * MINUTE && ended.length === 0; passed += 15 * SECOND) {
      if ((await lives.sweep(100)) > 0) ended.push(passed);
      clocks.pass(15 * SECOND);
    }
    expect(ended[0]).toBeGreaterThanOrEqual(name === 'RedisStore' ? 90 * SECOND : LEASE);
    expect(ended[0]).toBeLessThanOrEqual(LEASE + 15 * SECOND);
    expect(await running(lives)).toBe(0);
  });
});

describe('processes that share a file', () => {
  it('find a step also where one has just started, and where they have different clocks', async () => {
    const another = LEDGERS['SqliteStore']!();
    const one = another();
    await open(one);
    const id = requestId(1, clocks.wall);
    await admit(one, 1);
    clocks.wall += HOUR;
    const started = another();
    expect(await started.sweep(100)).toBe(0);
    clocks.wall -= HOUR;
    for (let beat = 0; beat < 20; beat++) {
      clocks.pass(HEARTBEAT / 2);
      expect(await renew(one, id)).toMatchObject({ code: 'ok' });
      clocks.wall += HOUR;
      expect(await started.sweep(100)).toBe(0);
      clocks.wall -= HOUR;
    }
    expect(await settle(one, id)).toMatchObject({ code: 'ok' });
  });

  it('give a lease to a request that ran before all of them stood still, and end it if it is dead', async () => {
    const another = LEDGERS['SqliteStore']!();
    const [one, two] = [another(), another()];
    await open(one);
    const [id, dead] = [requestId(1, clocks.wall), requestId(2, clocks.wall)];
    for (const n of [1, 2]) await admit(one, n);
    clocks.pass(HEARTBEAT);
    await two.sweep(100);
    clocks.pass(8 * HOUR);
    expect(await two.sweep(100)).toBe(0);
    expect(await renew(one, id)).toMatchObject({ code: 'ok' });
    clocks.pass(MINUTE);
    expect(await two.sweep(100)).toBe(1);
    expect(await one.request('acme', dead)).toMatchObject({ state: 'expired' });
    expect(await settle(one, id)).toMatchObject({ code: 'ok' });
  });

  it('end a lease that went back with the clock when its time is over', async () => {
    const another = LEDGERS['SqliteStore']!();
    const [dead, lives] = [another(), another()];
    await open(lives);
    await admit(dead, 1);
    clocks.wall -= HOUR;
    for (let passed = 0; passed < LEASE; passed += HEARTBEAT) {
      expect(await lives.sweep(100), `after ${passed} ms`).toBe(0);
      clocks.pass(HEARTBEAT);
    }
    expect(await lives.sweep(100)).toBe(1);
  });
});

describe('steps of a clock', () => {
  it('are none while it goes as time does, by whichever process looks', () => {
    const steps = [1, 2, 3].map(() => new ClockSteps(clocks.ofProcess().elapsed));
    let last: ClockReading | undefined;
    for (let n = 0; n < 1000; n++) {
      clocks.pass((n * 997) % 20_000);
      const look = steps[n % 3]!.observe(clocks.wall, last);
      expect(look.step).toBe(0);
      last = look.reading ?? last;
    }
    expect(last?.wall).toBeGreaterThan(clocks.wall - 5000);
  });
});

describe('the horizon of leases', () => {
  it('is unknown at first, and then goes on as time does, whatever is heard', () => {
    const { elapsed } = clocks.ofProcess();
    const horizon = new LeaseHorizon(elapsed);
    expect(horizon.time).toBeUndefined();
    horizon.sync(NOON);
    expect(horizon.time).toBe(NOON + 10_000);
    clocks.pass(5000);
    horizon.sync(NOON + HOUR);
    expect(horizon.time).toBe(NOON + 15_000);
  });

  it('follows a clock that is ahead once it has been for a minute, and one that is behind at once', () => {
    const { elapsed } = clocks.ofProcess();
    const horizon = new LeaseHorizon(elapsed);
    horizon.sync(clocks.wall);
    clocks.wall += HOUR;
    for (let s = 0; s < 60; s++) {
      horizon.sync(clocks.wall);
      expect(horizon.time).toBeLessThan(clocks.wall);
      clocks.pass(SECOND);
    }
    horizon.sync(clocks.wall);
    expect(horizon.time).toBe(clocks.wall + 10_000);
    clocks.wall -= HOUR;
    horizon.sync(clocks.wall);
    expect(horizon.time).toBe(clocks.wall + 10_000);
  });

  it('keeps to the clock that is behind, where two servers have different ones', () => {
    const { elapsed } = clocks.ofProcess();
    const horizon = new LeaseHorizon(elapsed);
    for (let s = 0; s < 200; s++) {
      horizon.sync(clocks.wall + (s % 2) * MINUTE);
      expect(horizon.time).toBe(clocks.wall + 10_000);
      clocks.pass(SECOND);
    }
  });
});
