import { defineScript, type LuaScript, NOW_LUA } from './define-script.ts';

/** Records that a gateway uses the store, for a time; 0 removes it. */
export const announceGateway: LuaScript<[clock: string, gateway: string, leaseMs: string], void> =
  defineScript(
    /* lua */ `#!lua
-- KEYS[1] zset         gateway -> end of its lease
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] gateway
-- ARGV[3] lease        ms; 0 removes the gateway
-- returns {}
${NOW_LUA}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if ARGV[3] == '0' then
  redis.call('ZREM', KEYS[1], ARGV[2])
else
  redis.call('ZADD', KEYS[1], string.format('%d', now + tonumber(ARGV[3])), ARGV[2])
end
return {}
`,
    () => {},
  );

/** Gateway → ms until its lease ends. */
export const liveGateways: LuaScript<[clock: string], ReadonlyMap<string, number>> = defineScript(
  /* lua */ `#!lua flags=no-writes
-- KEYS[1] zset         gateway -> end of its lease
-- ARGV[1] clock        ms, or empty for Redis's own
-- returns {gateway, ms until its lease ends, ...}
${NOW_LUA}
local found = redis.call('ZRANGE', KEYS[1], string.format('(%d', now), '+inf', 'BYSCORE', 'WITHSCORES')
for i = 2, #found, 2 do
  found[i] = string.format('%d', tonumber(found[i]) - now)
end
return found
`,
  (reply) => new Map(reply.pairs().map(([gateway, left]) => [gateway, Number(left)])),
);
