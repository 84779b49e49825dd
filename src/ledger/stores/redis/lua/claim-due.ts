import { defineScript, type LuaScript, NOW_LUA } from './define-script.ts';

/** Removes due accounts from a set of hints and returns them, earliest first. */
export const claimDue: LuaScript<[clock: string, limit: string], readonly string[]> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- KEYS[1] zset         account -> when something in it is due
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] limit        maximum number of accounts
-- returns {account, ...}
${NOW_LUA}
local accounts = redis.call('ZRANGE', KEYS[1], '-inf', now, 'BYSCORE', 'LIMIT', '0', ARGV[2])
if #accounts > 0 then redis.call('ZREM', KEYS[1], unpack(accounts)) end
return accounts
`,
  (reply) => reply.texts(),
);
