import type { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Target } from '../../../src/catalog/model.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import type { UpstreamLimits } from '../../../src/options/upstream-limits.ts';
import { Capacity } from '../../../src/upstream/capacity.ts';
import { FleetSync } from '../../../src/upstream/fleet-sync.ts';
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

/** Minutes of a fleet in virtual time, before a real Redis: what was sent, in its order. */
async function simulate({
  seed,
  processes,
  limits,
  perMinute,
  tokens = () => 1,
  minutes,
}: World): Promise<Outcome> {
  const random = new Random(seed);
  const start = 1_700_000_000_000;
  let now = start;
  const store = new RedisStore({ client: redis, keyPrefix: namespace(), now: () => now });
  const provider = { name: 'loopback', limits };
  const target = { provider, healthKey: 'model', model: 'model' } as unknown as Target;
  const fleet = Array.from({ length: processes }, (_, n) => {
    // Clocks of processes begin anywhere, and their ticks are spread.
    const skew = random.below(1e6);
    const sync = new FleetSync({
      view: store.fleet,
      onError: (error) => {
        throw error;
      },
      now: () => now - start + skew,
      process: `p${n}`,
    });
    return {
      sync,
      capacity: new Capacity({ fleet: sync, now: () => now - start + skew }),
      at: random.below(TICK_MS),
      hasJoined: false,
    };
  });
  const sent: Sent[] = [];
  let [arrival, refused] = [0, 0];
  for (; now < start + minutes * MINUTE; now += 5) {
    for (const each of fleet) if ((now - start) % TICK_MS === each.at - (each.at % 5)) await each.sync.tick();
    for (; arrival <= now - start; arrival += (-Math.log(1 - random.next()) * MINUTE) / perMinute) {
      const each = fleet[random.below(processes)] ?? fail();
      const size = tokens(random);
      if (each.capacity.waitMs(target, '', size) > 0) refused += 1;
      else {
        sent.push({ at: now - start, tokens: size });
        each.capacity.take(target, '', size).end(size);
      }
      // It joins by its first request, and hears of the others at once.
      if (!each.hasJoined) await each.sync.tick();
      each.hasJoined = true;
    }
  }
  for (const { sync } of fleet) await sync.close();
  await store.close();
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
