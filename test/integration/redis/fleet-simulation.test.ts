import type { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Target } from '../../../src/catalog/model.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import type { UpstreamLimits } from '../../../src/options/upstream-limits.ts';
import { Capacity } from '../../../src/upstream/capacity.ts';
import { FleetHealth } from '../../../src/upstream/fleet-health.ts';
import { FleetSync } from '../../../src/upstream/fleet-sync.ts';
import { limitsLeft } from '../../../src/upstream/rate-limits.ts';
import { namespace } from '../../helpers/redis-ledger.ts';
import { useRedis } from '../../helpers/use-redis.ts';
import { Random } from '../../simulation/random.ts';

let redis: Redis;

useRedis((own) => ({ redis } = own));

// Time passes by steps: only they make the processes report.
beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }));
afterEach(() => void vi.useRealTimers());

const MINUTE = 60_000;
const TICK_MS = 250;

interface World {
  readonly seed: number;
  readonly processes: number;
  readonly limits: UpstreamLimits;
  /** Offered to all processes together. */
  readonly perMinute: number;
  /** Of one request. */
  readonly tokens?: (random: Random) => number;
  readonly minutes: number;
}

interface Sent {
  readonly at: number;
  readonly tokens: number;
}

interface Outcome {
  readonly sent: readonly Sent[];
  readonly refused: number;
}

interface Process {
  readonly sync: FleetSync;
  readonly capacity: Capacity;
}

/** The requests of a world: what they do, and what happens every 5 ms. @param at - ms since the beginning */
interface Events {
  readonly onRequest: (process: Process, random: Random, at: number) => Promise<void> | void;
  readonly onStep?: (at: number) => void;
}

/** Minutes of a fleet in virtual time, before a real Redis. Returns the names of the keys that were there at the end. */
async function run(
  { seed, processes, perMinute, minutes }: Omit<World, 'limits'>,
  { onRequest, onStep }: Events,
): Promise<readonly string[]> {
  const random = new Random(seed);
  const start = 1_700_000_000_000;
  let now = start;
  const keyPrefix = namespace();
  const store = new RedisStore({ client: redis, keyPrefix, now: () => now });
  const fleet = Array.from({ length: processes }, (_, n) => {
    // Clocks of processes begin anywhere, and their ticks are spread.
    const skew = random.below(1e6);
    const sync = new FleetSync({
      view: store.fleet,
      onError: (error) => {
        throw error;
      },
      health: new FleetHealth(),
      now: () => now - start + skew,
      process: `p${n}`,
    });
    return {
      sync,
      capacity: new Capacity({ fleet: sync, now: () => now - start + skew }),
      at: random.below(TICK_MS),
    };
  });
  let arrival = 0;
  for (; now < start + minutes * MINUTE; now += 5) {
    for (const each of fleet) if ((now - start) % TICK_MS === each.at - (each.at % 5)) await each.sync.tick();
    onStep?.(now - start);
    for (; arrival <= now - start; arrival += (-Math.log(1 - random.next()) * MINUTE) / perMinute) {
      await onRequest(fleet[random.below(processes)] ?? fail(), random, now - start);
    }
  }
  const keys = await redis.keys(`${keyPrefix}*`);
  for (const { sync } of fleet) await sync.close();
  await store.close();
  return keys.map((key) => key.slice(keyPrefix.length));
}

/** Requests with limits of options: what was sent, in its order. */
async function simulate({ limits, tokens = () => 1, ...world }: World): Promise<Outcome> {
  const provider = { name: 'loopback', limits };
  const target = { provider, healthKey: 'model', model: 'model' } as unknown as Target;
  const sent: Sent[] = [];
  const joined = new Set<Process>();
  let refused = 0;
  await run(world, {
    onRequest: async (process, random, at) => {
      const size = tokens(random);
      if (process.capacity.waitMs(target, '', size) > 0) refused += 1;
      else {
        sent.push({ at, tokens: size });
        process.capacity.take(target, '', size).end(size);
      }
      // It joins by its first request, and hears of the others at once.
      if (!joined.has(process)) await process.sync.tick();
      joined.add(process);
    },
  });
  return { sent, refused };
}

function fail(): never {
  throw new Error('no process');
}

/** The most of any 60 seconds, and the share of the limit that is used: how long the limit lasts, for 60 seconds at best. */
function judge(
  sent: readonly Sent[],
  limit: number,
  of: (sent: Sent) => number,
): { most: number; used: number } {
  let [sum, most, first] = [0, 0, 0];
  const spans: number[] = [];
  for (const [index, each] of sent.entries()) {
    sum += of(each);
    for (let oldest = sent[first]; oldest && oldest.at <= each.at - MINUTE; oldest = sent[++first])
      sum -= of(oldest);
    most = Math.max(most, sum);
    let [next, amount] = [index, 0];
    while (next < sent.length && amount < limit) amount += of(sent[next++] ?? fail());
    const after = sent[next];
    if (after) spans.push(after.at - each.at);
  }
  return { most, used: (MINUTE * spans.length) / spans.reduce((total, span) => total + span, 0) };
}

describe('a fleet in virtual time', () => {
  it.each([1, 2, 3])('of 8 processes sends what the provider allows, and no more: seed %i', async (seed) => {
    const limits = { requestsPerMinute: 600 };
    const { sent } = await simulate({ seed, processes: 8, limits, perMinute: 2000, minutes: 4 });
    const { most, used } = judge(sent, 600, () => 1);
    expect(most).toBeLessThanOrEqual(606);
    expect(used).toBeGreaterThan(0.95);
  });

  it('shares tokens of requests of all sizes', async () => {
    const limits = { tokensPerMinute: 300_000 };
    const tokens = (random: Random): number => random.between(100, 2000);
    const { sent } = await simulate({ seed: 4, processes: 8, limits, perMinute: 1000, tokens, minutes: 4 });
    const { most, used } = judge(sent, 300_000, (each) => each.tokens);
    expect(most).toBeLessThanOrEqual(303_000);
    expect(used).toBeGreaterThan(0.95);
  });

  it('that has room serves each request', async () => {
    const limits = { requestsPerMinute: 600, tokensPerMinute: 300_000 };
    const tokens = (random: Random): number => random.between(100, 1000);
    const { sent, refused } = await simulate({
      seed: 5,
      processes: 8,
      limits,
      perMinute: 300,
      tokens,
      minutes: 3,
    });
    expect(sent.length).toBeGreaterThan(800);
    expect(refused).toBe(0);
  });
});

/** What a provider does with a request that costs so much, and what its headers say. */
interface Verdict {
  readonly isServed: boolean;
  readonly left: number;
  readonly resetMs: number;
}

/** A provider's limit of a minute, which is full at the beginning. */
interface Meter {
  serve(cost: number, at: number): Verdict;
  /** What nobody used, as a share of what a minute has. */
  idle(minutes: number): number;
}

/** Windows of a minute each: all is back when the next one begins. */
function fixedWindow(limit: number): Meter {
  let [window, used, total] = [0, 0, 0];
  return {
    serve(cost, at) {
      if (Math.floor(at / MINUTE) > window) [window, used] = [Math.floor(at / MINUTE), 0];
      const isServed = used + cost <= limit;
      if (isServed) [used, total] = [used + cost, total + cost];
      return { isServed, left: limit - used, resetMs: (window + 1) * MINUTE - at };
    },
    idle: (minutes) => 1 - total / (limit * minutes),
  };
}

/** Any minute: something is back when the oldest request is a minute old. */
function slidingWindow(limit: number): Meter {
  const served: Sent[] = [];
  let [first, used, total] = [0, 0, 0];
  return {
    serve(cost, at) {
      for (let oldest = served[first]; oldest && oldest.at <= at - MINUTE; oldest = served[++first])
        used -= oldest.tokens;
      const isServed = used + cost <= limit;
      if (isServed) {
        served.push({ at, tokens: cost });
        [used, total] = [used + cost, total + cost];
      }
      return { isServed, left: limit - used, resetMs: (served[first]?.at ?? at) + MINUTE - at };
    },
    idle: (minutes) => 1 - total / (limit * minutes),
  };
}

/** Refills steadily: the reset is when it is full again. */
function bucket(limit: number): Meter {
  let [level, since, spilt] = [limit, 0, 0];
  return {
    serve(cost, at) {
      const refilled = level + ((at - since) * limit) / MINUTE;
      [level, since, spilt] = [Math.min(limit, refilled), at, spilt + Math.max(0, refilled - limit)];
      const isServed = level >= cost;
      if (isServed) level -= cost;
      return { isServed, left: Math.floor(level), resetMs: ((limit - level) * MINUTE) / limit };
    },
    idle: (minutes) => spilt / (limit * minutes),
  };
}

interface Told extends Omit<World, 'limits' | 'tokens'> {
  readonly meter: Meter;
  /** Of a request: by its estimate, and at last. Without them, requests are limited. */
  readonly tokens?: (random: Random) => readonly [estimated: number, used: number];
}

/** Requests without limits of options, before a provider that says what is left in each answer, 250 to 750 ms after a request. */
async function simulateTold({ meter, tokens, ...world }: Told): Promise<{
  readonly refused: number;
  readonly idle: number;
  readonly keys: readonly string[];
}> {
  const provider = { name: 'loopback' };
  const target = { provider, healthKey: 'model', model: 'model' } as unknown as Target;
  const answers = new Map<number, (() => void)[]>();
  let [served, refused] = [0, 0];
  const keys = await run(world, {
    onStep: (at) => {
      answers.get(at)?.forEach((answer) => {
        answer();
      });
      answers.delete(at);
    },
    onRequest: ({ capacity }, random, at) => {
      const [estimated, used] = tokens?.(random) ?? [1, 1];
      if (capacity.exhaustedMs(target, '', estimated) > 0) return;
      const counted = capacity.sent(target, '', estimated);
      const { isServed, left, resetMs } = meter.serve(tokens ? used : 1, at);
      if (isServed) served += 1;
      else refused += 1;
      const name = tokens ? 'tokens' : 'requests';
      const headers = {
        [`x-ratelimit-remaining-${name}`]: String(left),
        [`x-ratelimit-reset-${name}`]: `${Math.ceil(resetMs)}ms`,
      };
      const answeredAt = at + 250 + 5 * random.below(100);
      const answer = (): void => {
        capacity.answered(target, '', counted, limitsLeft(headers));
        if (isServed) counted.end(used);
      };
      answers.set(answeredAt, [...(answers.get(answeredAt) ?? []), answer]);
    },
  });
  return { refused: refused / (served + refused), idle: meter.idle(world.minutes), keys };
}

describe('a fleet without options, whose provider says what is left', () => {
  const fleet = { processes: 8, minutes: 4 };

  it.each([
    ['a fixed window', 1, fixedWindow],
    ['a fixed window', 2, fixedWindow],
    ['a sliding window', 3, slidingWindow],
    ['a bucket that refills', 4, bucket],
  ])('sends the requests of %s, and no more: seed %i', async (_kind, seed, makeMeter) => {
    const { refused, idle } = await simulateTold({ ...fleet, seed, perMinute: 2000, meter: makeMeter(600) });
    expect(refused).toBeLessThanOrEqual(0.01);
    expect(idle).toBeLessThan(0.05);
  });

  it.each([
    ['a fixed window', 5, fixedWindow, 0],
    ['a fixed window, of which it uses less than it estimates', 6, fixedWindow, 500],
    ['a bucket that refills', 7, bucket, 0],
  ])('sends the tokens of %s, and no more: seed %i', async (_kind, seed, makeMeter, unused) => {
    const tokens = (random: Random): [number, number] => {
      const used = random.between(100, 2000);
      return [used + unused, used];
    };
    const meter = makeMeter(300_000);
    const { refused, idle } = await simulateTold({ ...fleet, seed, perMinute: 1000, tokens, meter });
    expect(refused).toBeLessThanOrEqual(0.01);
    expect(idle).toBeLessThan(0.05);
  });

  it('asks Redis for nothing while much is left', async () => {
    const world = { ...fleet, minutes: 2, seed: 8, perMinute: 2000 };
    const slots = ({ keys }: { readonly keys: readonly string[] }): readonly string[] =>
      keys.filter((key) => key.startsWith('ccr:up:'));
    expect(slots(await simulateTold({ ...world, meter: bucket(20_000) }))).toEqual([]);
    expect(slots(await simulateTold({ ...world, meter: bucket(1000) }))).toHaveLength(1);
  });
});
