import type { EndAllowanceResult } from '../../../contract/allowances.ts';
import { ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript, unknownCode } from './define-script.ts';
import { LOTS_LUA } from './lots-lua.ts';

/** Ends an allowance, as `endAllowance` in allowances.ts. */
export const endAllowance: LuaScript<
  [clock: string, id: string, at: string, version: string, ...witnesses: string[]],
  EndAllowanceResult
> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] allowance id
-- ARGV[3] at           now or period_end
-- ARGV[4] version      that this change made before, or empty
-- ARGV[5] and on       witnesses
-- returns {code, now, seq, ...}: {available, version} for ok and duplicate
${ACCOUNT_LUA}${LOTS_LUA}
-- Moves the expiry of the allowance's lots to now. It is part of their place in the burn order.
local function expire_lots_of(id, now)
  local prefix, moved, n = lot_prefix(id), {}, 1
  while lot(n) do
    local each = lot(n)
    if each.remaining > 0 and string.sub(lot_id(each), 1, #prefix) == prefix then
      moved[#moved + 1] = {member = each.member, remaining = each.remaining}
      each.remaining = 0
    end
    n = n + 1
  end
  for _, each in ipairs(moved) do
    local priority, lot_name, amount = string.match(each.member, '^(%d+) %d+ (%S+) (%S+)$')
    add_lot(lot_name, tonumber(priority), now, tonumber(amount), each.remaining)
  end
end

local now, is_now = clock(ARGV[1]), ARGV[3] == 'now'
if not load_totals() then return reply(now, 'no_account') end
check_witnesses(5)
update_credits(now)
local allowance
for _, each in ipairs(load_allowances()) do
  if each.id == ARGV[2] then allowance = each end
end
if not allowance then return reply(now, 'no_allowance') end
-- Also a duplicate is written, so that a repeated command can wait until replicas have it.
allowances_changed = true
local ends = is_now and now or later_period(allowance, allowance.period, 1)
local is_repeated = ARGV[4] ~= '' and allowance.version >= tonumber(ARGV[4])
if is_repeated or allowance.ends <= ends and (not is_now or allowance.granted == 0) then
  return reply(now, 'duplicate', decimal(totals.av), decimal(allowance.version))
end

allowance.ends = math.min(allowance.ends, ends)
allowance.version = allowance.version + 1
if is_now then
  allowance.granted = 0
  expire_lots_of(allowance.id, now)
  totals.nx = now
  update_credits(now)
end
return reply(now, 'ok', decimal(totals.av), decimal(allowance.version))
`,
  (reply) => {
    const code = reply.text();
    const meta = reply.meta();
    switch (code) {
      case 'ok':
      case 'duplicate':
        return { code, available: reply.amount(), version: reply.count(), ...meta };
      case 'no_allowance':
      case 'no_account':
        return { code, ...meta };
      default:
        throw unknownCode(code);
    }
  },
);
