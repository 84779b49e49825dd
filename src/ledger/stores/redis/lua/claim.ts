import { CLAIM_SLACK_MS } from '../../../contract/ledger-store.ts';
import { defineScript, type LuaScript, NOW_LUA } from './define-script.ts';

/** Claims a name for a time, unless it is claimed; 0 ends its claim. */
export const claim: LuaScript<[clock: string, name: string, leaseMs: string], number | undefined> =
  defineScript(
    /* lua */ `#!lua
-- KEYS[1] hash         name -> "since until", of its claim, in ms
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] name
-- ARGV[3] lease        ms; 0 ends the claim
-- returns {when it was claimed first, or empty}
${NOW_LUA}
if ARGV[3] == '0' then
  redis.call('HDEL', KEYS[1], ARGV[2])
  return {''}
end
local since, last = string.match(redis.call('HGET', KEYS[1], ARGV[2]) or '', '^(%d+) (%d+)$')
local ends = now + tonumber(ARGV[3])
-- One that ends much later is from before the clock was set back.
if last and tonumber(last) > now and tonumber(last) <= ends + ${CLAIM_SLACK_MS} then return {''} end
since = since or string.format('%d', now)
redis.call('HSET', KEYS[1], ARGV[2], since .. string.format(' %d', ends))
return {since}
`,
    (reply) => {
      const since = reply.text();
      return since === '' ? undefined : Number(since);
    },
  );
