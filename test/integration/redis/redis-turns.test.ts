import type { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { ServedTurn, TurnState } from '../../../src/index.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { namespace } from '../../helpers/redis-ledger.ts';
import { useRedis } from '../../helpers/use-redis.ts';

let redis: Redis;

useRedis((own) => ({ redis } = own));

let store: RedisStore;
let key: string;
let now: number;

beforeEach(() => {
  now = 1_700_000_000_000;
  const keyPrefix = namespace();
  key = `${keyPrefix}ccr:turns`;
  store = new RedisStore({ client: redis, keyPrefix, now: () => now });
});
afterEach(() => store.close());

const served = (turn: number, more: Partial<ServedTurn> = {}): ServedTurn => ({
  account: 'acme',
  turn,
  provider: 'groq',
  model: 'llama',
  key: 'first',
  forMs: 5000,
  ...more,
});

function share(member: string, since: number, ...turns: readonly ServedTurn[]): Promise<TurnState> {
  return store.fleet.shareTurns({ member, since, turns });
}

describe('turns of conversations', () => {
  it('are read by the other members, whole and in order, and not by who told them', async () => {
    const odd = served(2 ** 53 - 1, { account: 'org/x "y" ü\n', provider: 'a b', key: undefined });
    expect(await share('one', 0, served(1), odd)).toEqual({ number: 2, hasMore: false, turns: [] });
    now += 1000;
    expect(await share('two', 0, served(3))).toEqual({
      number: 3,
      hasMore: false,
      turns: [served(1, { forMs: 4000 }), { ...odd, forMs: 4000 }],
    });
    expect(await share('one', 2)).toEqual({ number: 3, hasMore: false, turns: [served(3)] });
    expect(await share('one', 3)).toEqual({ number: 3, hasMore: false, turns: [] });
    expect((await share('new', 0)).turns.map(({ turn }) => turn)).toEqual([1, 2 ** 53 - 1, 3]);
  });

  it('are left out when their time is over, and forgotten a day after the last one', async () => {
    await share('one', 0, served(1, { forMs: 999.5 }), served(2));
    now += 1000;
    expect((await share('two', 0)).turns.map(({ turn }) => turn)).toEqual([2]);
    const ttl = await redis.pttl(key);
    expect(ttl).toBeGreaterThan(86_000_000);
    expect(ttl).toBeLessThanOrEqual(86_400_000);
  });

  it('are read page by page; a member tells its own when it has read all', async () => {
    await share('one', 0, ...Array.from({ length: 1500 }, (_, n) => served(n + 1)));
    const first = await share('two', 0, served(9999));
    expect(first).toMatchObject({ number: 1000, hasMore: true });
    expect(first.turns.map(({ turn }) => turn)).toEqual(Array.from({ length: 1000 }, (_, n) => n + 1));
    expect(await redis.llen(key)).toBe(1500);
    const rest = await share('two', first.number, served(9999));
    expect(rest).toMatchObject({ number: 1501, hasMore: false });
    expect(rest.turns.map(({ turn }) => turn)).toEqual(Array.from({ length: 500 }, (_, n) => n + 1001));
  });

  it('are 131,072 at most: who reads late has the newest', async () => {
    await share('one', 0, served(1));
    const text = `${now + 5000} one ["acme",7,"groq","llama","first"]`;
    for (let from = 2; from <= 131_072; from += 10_000) {
      const size = Math.min(10_000, 131_073 - from);
      await redis.rpush(key, ...Array.from({ length: size }, (_, n) => `${from + n} ${text}`));
    }
    expect(await share('one', 131_072, served(2), served(3))).toMatchObject({ number: 131_074 });
    expect(await redis.llen(key)).toBe(131_072);
    expect(await share('two', 1)).toMatchObject({ number: 1002, hasMore: true });
    expect((await share('two', 131_072)).turns.map(({ turn }) => turn)).toEqual([2, 3]);
  });

  it('begin anew when Redis has lost them', async () => {
    await share('one', 0, served(1), served(2));
    await redis.del(key);
    expect(await share('two', 2, served(3))).toEqual({ number: 1, hasMore: false, turns: [] });
    expect(await share('one', 2)).toEqual({ number: 1, hasMore: false, turns: [served(3)] });
  });
});
