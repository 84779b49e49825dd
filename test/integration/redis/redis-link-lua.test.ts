import type { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';

import type { Witness } from '../../../src/ledger/contract/ledger-store.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { linkLua } from '../../../src/ledger/stores/redis/lua/link-lua.ts';
import type { ReplyMeta } from '../../../src/ledger/contract/reply.ts';
import { requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import { useRedis } from '../../helpers/use-redis.ts';

let redis: Redis;

useRedis((own) => ({ redis } = own));

describe('a script as it is sent', () => {
  it('has the values of its constants in their places', () => {
    const source = `#!lua
local DUE = KEYS[3]
local DAY = 86400000
local NONE = ' '
local NO_WINDOW = -1
local function later(now) return {now + DAY, NONE, NO_WINDOW} end
return redis.call('ZADD', DUE, later(0)[1], 'DUE')
`;
    expect(linkLua(source)).toBe(`#!lua
local function later(now) return {now + 86400000, ' ', -1} end
return redis.call('ZADD', KEYS[3], later(0)[1], 'DUE')
`);
  });

  it('has none of the functions that it does not use, nor of those that only they use', () => {
    const source = `#!lua
-- unused is named in a comment alone
local function helper()
  return 1
end

local function unused(n)
  if n == 0 then
    return helper()
  end
  return unused(n - 1)
end

local function used()
  return 2
end
return used()
`;
    expect(linkLua(source).replaceAll(/\n+/g, '\n')).toBe(`#!lua
local function used()
  return 2
end
return used()
`);
  });
});

describe('a request in Redis', () => {
  it('costs one command for each witness, beside those that it has without', async () => {
    const store = new RedisStore({ client: redis });
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    const posted = await request(store, 1);
    const plain = await commandsOf(() => request(store, 2));
    const witness = { type: 'line' as const, seq: posted.seq, at: posted.now, id: requestId(1) };
    const witnessed = await commandsOf(() => request(store, 3, [witness]));
    expect(witnessed - plain).toBe(2);
    await store.close();
  });
});

const SETTLEMENT = { account: 'acme', key: 'k1', model: 'm', usage: USAGE, force: true, amount: 1n };

async function request(store: RedisStore, n: number, witnesses: readonly Witness[] = []): Promise<ReplyMeta> {
  const hold = { want: 1n, min: 1n, leaseMs: 60_000, tokens: 0, notAfter: Infinity, externalKey: true };
  await store.admit({ account: 'acme', key: 'k1', requestId: requestId(n), ...hold, witnesses });
  return store.settle({ ...SETTLEMENT, requestId: requestId(n), witnesses });
}

/** How many commands the server ran, those of scripts included. */
async function commandsOf(work: () => Promise<unknown>): Promise<number> {
  await redis.config('RESETSTAT');
  await work();
  const stats = await redis.info('commandstats');
  const calls = [...stats.matchAll(/^cmdstat_(?!info|config|eval|fcall|function)[^:]*:calls=(\d+)/gm)];
  return calls.reduce((sum, [, count]) => sum + Number(count), 0);
}
