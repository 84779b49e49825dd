import { Cluster } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';

import type { Target } from '../../src/catalog/model.ts';
import type { ServedTurn, SlotReport, SlotState } from '../../src/index.ts';
import { RedisStore } from '../../src/ledger/stores/redis/redis-store.ts';
import { Capacity } from '../../src/upstream/capacity.ts';
import { FleetHealth } from '../../src/upstream/fleet-health.ts';
import { FleetSync } from '../../src/upstream/fleet-sync.ts';
import { type RedisCluster, startCluster } from '../helpers/redis-cluster.ts';
import { namespace } from '../helpers/redis-ledger.ts';

/** Their keys are on all primaries. */
const SLOTS = Array.from({ length: 30 }, (_, n) => `["groq","key ${n}","llama"]`);
const SECOND = 1000;

let cluster: RedisCluster;
let client: Cluster;
let store: RedisStore;
let keyPrefix: string;
let now: number;

beforeAll(async () => {
  cluster = await startCluster();
  client = new Cluster(cluster.primaries.map(({ server }) => ({ host: '127.0.0.1', port: server.port })));
});
afterAll(async () => {
  client.disconnect();
  await cluster.stop();
});
beforeEach(() => {
  now = 1_700_000_000_000;
  keyPrefix = namespace();
  store = new RedisStore({ client, keyPrefix, now: () => now });
});
afterEach(() => store.close());

/** A member's first report of this slot, and then what it used. */
async function report(slot: string, member: string, requests: number): Promise<SlotState> {
  const terms: Omit<SlotReport, 'epoch' | 'seq'> = {
    slot,
    member,
    bucketMs: SECOND,
    leaseMs: 3 * SECOND,
    limits: { requests: 100 },
    used: [{ requests, tokens: 0, agoMs: 0 }],
    wanted: { requests: 10, tokens: 0, running: 0 },
    leastTokens: 0,
    running: 0,
    isLeaving: false,
    sent: { requests: 0, tokens: 0 },
    words: {},
  };
  const { epoch } = await store.fleet.sync({ ...terms, epoch: '', seq: 1 });
  const state = await store.fleet.sync({ ...terms, epoch, seq: 2 });
  if (!state.granted) throw new Error('The slot was lost');
  return state;
}

describe("the fleet's view on a cluster", () => {
  it('has slots on all of its nodes, each with its own counts', async () => {
    await Promise.all(SLOTS.map((slot, n) => report(slot, 'one', n)));
    const states = await Promise.all(SLOTS.map((slot) => report(slot, 'two', 1)));
    expect(states.map(({ used, members }) => [used.requests, members])).toEqual(
      SLOTS.map((_, n) => [n + 1, 2]),
    );
    for (const { granted, used } of states) expect(granted.requests + used.requests).toBeLessThanOrEqual(100);
    const sizes = await Promise.all(
      cluster.primaries.map(async ({ redis }) => (await redis.keys(`${keyPrefix}ccr:up:*`)).length),
    );
    expect(sizes.every((size) => size > 0)).toBe(true);
    expect(sizes.reduce((sum, size) => sum + size)).toBe(SLOTS.length);
  });

  it('has one list of what is ejected, who probes it, and what is used up', async () => {
    const tell = (member: string, ...changes: Parameters<typeof store.fleet.syncHealth>[0]['changes']) =>
      store.fleet.syncHealth({ member, leaseMs: 3 * SECOND, changes, exhausted: [] });
    await tell('one', { target: 'groq', type: 'ejected', retryInMs: 1000, ejections: 1 });
    await store.fleet.syncHealth({
      member: 'one',
      leaseMs: 3 * SECOND,
      changes: [],
      exhausted: [{ slot: SLOTS[0]!, forMs: 9000 }],
    });
    expect(await tell('two')).toEqual({
      ejected: [{ target: 'groq', retryInMs: 1000, ejections: 1, mayProbe: false }],
      exhausted: [{ slot: SLOTS[0], forMs: 9000 }],
    });
    now += 1000;
    const probers = [await tell('one'), await tell('two')].map(({ ejected }) => ejected[0]?.mayProbe);
    expect(probers).toEqual([true, false]);
    await tell('one', { target: 'groq', type: 'recovered' });
    expect((await tell('two')).ejected).toEqual([]);
  });

  it('has turns of conversations in order', async () => {
    const turn = (n: number): ServedTurn => ({
      account: 'acme',
      turn: n,
      provider: 'groq',
      model: 'llama',
      key: 'first',
      forMs: 5000,
    });
    await store.fleet.shareTurns({ member: 'one', since: 0, turns: [turn(1), turn(2)] });
    const { turns, number } = await store.fleet.shareTurns({ member: 'two', since: 0, turns: [turn(3)] });
    expect(turns).toEqual([turn(1), turn(2)]);
    expect((await store.fleet.shareTurns({ member: 'one', since: number - 1, turns: [] })).turns).toEqual([
      turn(3),
    ]);
  });

  it('gives processes parts of one limit, by stores that they opened by its URL', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const LIMIT = 600;
    const target = {
      provider: { name: 'loopback', limits: { requestsPerMinute: LIMIT } },
      healthKey: 'model',
    } as unknown as Target;
    const members = Array.from({ length: 3 }, () => {
      const own = new RedisStore({ client: cluster.url, keyPrefix, now: () => now });
      const sync = new FleetSync({
        view: own.fleet,
        onError: (error) => {
          throw error;
        },
        health: new FleetHealth(),
        now: () => now,
      });
      onTestFinished(async () => {
        await sync.close();
        await own.close();
      });
      return { capacity: new Capacity({ fleet: sync, now: () => now }), sync };
    });
    let sent = 0;
    // Each joins by a request of its own.
    for (const { capacity, sync } of members) {
      capacity.take(target, '', 1).end(1);
      sent += 1;
      await sync.tick();
    }
    for (let n = 0; n < 40; n++, now += 250) {
      for (const { capacity, sync } of members) {
        while (capacity.waitMs(target, '', 1) === 0) {
          capacity.take(target, '', 1).end(1);
          sent += 1;
        }
        await sync.tick();
      }
    }
    // Each may send one beyond its part now and then.
    expect(sent).toBeGreaterThanOrEqual(LIMIT);
    expect(sent).toBeLessThanOrEqual(1.01 * LIMIT);
  });
});
