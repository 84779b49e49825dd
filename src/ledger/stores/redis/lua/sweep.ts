import { defineScript, type LuaScript } from './define-script.ts';
import { REQUEST_SCRIPT_LUA } from './requests-lua.ts';

/**
 * Ends and deletes due requests of one account, as `reap` in account-engine.ts,
 * and expires credits. Returns the count, and when to sweep again, if ever.
 *
 * A request that became final in the last two minutes makes that soon: its account
 * is busy, and its hint was written at most once a minute.
 */
export const sweep: LuaScript<
  [clock: string, budget: string],
  { readonly count: number; readonly lookAgainAt: number | undefined; readonly now: number | undefined }
> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own; then <, and the horizon of leases in ms, or nothing
-- ARGV[2] budget       maximum number of requests
-- returns {code, now, seq, count, when to look again or empty} for ok
${REQUEST_SCRIPT_LUA}
local now = clock(ARGV[1])
if not load_totals() then return reply(now, 'no_account') end
local count = reap(tonumber(ARGV[2]), now)
update_credits(now)
local result = reply(now, 'ok', decimal(count))
local first = redis.call('ZRANGE', DUE, '-inf', '(+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2]
local last = redis.call('ZRANGE', DUE, '(+inf', '-inf', 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')[2]
local again = math.min(tonumber(first or NEVER), size(totals.nx))
if last and tonumber(last) > now + RETENTION - 120000 then again = math.min(again, now + 120000) end
result[6] = again < NEVER and decimal(math.max(again, count < tonumber(ARGV[2]) and now + 1000 or now)) or ''
return result
`,
  (reply) => {
    if (reply.text() !== 'ok') return { count: 0, lookAgainAt: undefined, now: undefined };
    const { now } = reply.meta();
    const count = reply.count();
    const again = reply.text();
    return { count, lookAgainAt: again === '' ? undefined : Number(again), now };
  },
);
