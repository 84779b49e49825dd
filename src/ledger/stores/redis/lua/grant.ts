import type { GrantResult } from '../../../contract/ledger-store.ts';
import { ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript, unknownCode } from './define-script.ts';
import { LOTS_LUA } from './lots-lua.ts';

/** Adds credits, as `grant` in lots.ts; creates the account if there is none. */
export const grant: LuaScript<
  [
    clock: string,
    id: string,
    amount: string,
    expiresAt: string,
    priority: string,
    mustExist: '0' | '1',
    ...witnesses: string[],
  ],
  GrantResult
> = defineScript(
  /* lua */ `#!lua
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] grant id
-- ARGV[3] amount       nano-dollars
-- ARGV[4] expires at   ms, or empty for never
-- ARGV[5] priority     0 to 100
-- ARGV[6] must exist   1 to refuse if there is no account
-- ARGV[7] and on       witnesses
-- returns {code, now, seq, ...}: {available} for ok and duplicate
${ACCOUNT_LUA}${LOTS_LUA}
local now, id, amount = clock(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local expiry = tonumber(ARGV[4]) or NEVER
if not load_totals() and ARGV[6] == '1' then return reply(now, 'no_account') end
if not totals then create_account(now) end
check_witnesses(7)
local terms = string.format('grant %s %d %s', ARGV[3], expiry, ARGV[5])
local known = redis.call('HGET', PAID, id)
if known == terms then
  -- Written again, so that a repeated command can wait until replicas have it.
  redis.call('HSET', PAID, id, terms)
  return reply(now, 'duplicate', decimal(totals.av))
end
if known then return reply(now, 'conflict') end

update_credits(now)
if unspent() + amount >= WIDE then return reply(now, 'too_big') end
if open_lots() >= 100 then return reply(now, 'too_many_lots') end

totals.g = plus(totals.g, amount)
totals.av = plus(totals.av, amount)
totals.nx = math.min(totals.nx, expiry)
write_line(now, 'g', id, amount, {})
redis.call('HSET', PAID, id, terms)
add_lot(id, tonumber(ARGV[5]), expiry, amount, amount)
return reply(now, 'ok', decimal(totals.av))
`,
  (reply) => {
    const code = reply.text();
    const meta = reply.meta();
    switch (code) {
      case 'ok':
      case 'duplicate':
        return { code, available: reply.amount(), ...meta };
      case 'conflict':
      case 'too_big':
      case 'too_many_lots':
      case 'no_account':
        return { code, ...meta };
      default:
        throw unknownCode(code);
    }
  },
);
