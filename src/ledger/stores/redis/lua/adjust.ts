import type { AdjustResult } from '../../../contract/ledger-store.ts';
import { ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript, unknownCode } from './define-script.ts';
import { LOWEST_FLOOR_LUA } from './set-floor.ts';
import { LOTS_LUA } from './lots-lua.ts';

/** Adjusts a balance, as `adjust` in lots.ts. */
export const adjust: LuaScript<
  [clock: string, id: string, delta: string, reason: string, force: '0' | '1', ...witnesses: string[]],
  AdjustResult
> = defineScript(
  /* lua */ `#!lua
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] id           of the adjustment; grants and adjustments share ids
-- ARGV[3] delta        nano-dollars, not 0
-- ARGV[4] reason       recorded in the journal as it is
-- ARGV[5] force        1 to take also below the floor, and to freeze
-- ARGV[6] and on       witnesses
-- returns {code, now, seq, ...}: {available} for ok, duplicate and below_floor
${ACCOUNT_LUA}${LOTS_LUA}${LOWEST_FLOOR_LUA}
local now, id, delta = clock(ARGV[1]), ARGV[2], tonumber(ARGV[3])
if not load_totals() then return reply(now, 'no_account') end
check_witnesses(6)
local terms = string.format('adjust %s %s', ARGV[3], ARGV[4])
local known = redis.call('HGET', PAID, id)
if known == terms then
  -- Written again, so that a repeated command can wait until replicas have it.
  redis.call('HSET', PAID, id, terms)
  return reply(now, 'duplicate', decimal(totals.av))
end
if known then return reply(now, 'conflict') end

update_credits(now)
if delta > 0 and unspent() + delta >= WIDE then return reply(now, 'too_big') end
local lowest = ARGV[5] == '1' and 1 - WIDE or totals.fl
if delta < 0 and size(totals.av) + delta < lowest then return reply(now, 'below_floor', decimal(totals.av)) end

totals.g = plus(totals.g, delta)
totals.av = plus(totals.av, delta)
burn(0 - delta)
if ARGV[5] == '1' then
  totals.st = 'frozen'
  lower_floor_to(size(totals.av))
end
write_line(now, 'a', id, delta, {rest = ARGV[4]})
redis.call('HSET', PAID, id, terms)
return reply(now, 'ok', decimal(totals.av))
`,
  (reply) => {
    const code = reply.text();
    const meta = reply.meta();
    switch (code) {
      case 'ok':
      case 'duplicate':
      case 'below_floor':
        return { code, available: reply.amount(), ...meta };
      case 'conflict':
      case 'too_big':
      case 'no_account':
        return { code, ...meta };
      default:
        throw unknownCode(code);
    }
  },
);
