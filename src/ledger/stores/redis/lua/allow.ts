import type { AllowResult } from '../../../contract/allowances.ts';
import { ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript, unknownCode } from './define-script.ts';
import { LOTS_LUA } from './lots-lua.ts';

/** Creates or changes an allowance, as `allow` in allowances.ts; creates the account if there is none. */
export const allow: LuaScript<
  [
    clock: string,
    id: string,
    amount: string,
    per: string,
    anchor: string,
    rollover: string,
    priority: string,
    until: string,
    change: string,
    version: string,
    mustExist: '0' | '1',
    grantedPeriod: string,
    grantedAmount: string,
    ...witnesses: string[],
  ],
  AllowResult
> = defineScript(
  /* lua */ `#!lua
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] allowance id
-- ARGV[3] amount       nano-dollars
-- ARGV[4] per          hour, day, week or month
-- ARGV[5] anchor       ms
-- ARGV[6] rollover     none, once or all
-- ARGV[7] priority     0 to 100
-- ARGV[8] until        ms, or empty for no end
-- ARGV[9] change       prorate or next_period
-- ARGV[10] version     that this change made before, or empty
-- ARGV[11] must exist  1 to refuse if there is no account
-- ARGV[12] granted     start of the latest period that was granted in another store, or empty
-- ARGV[13] amount of that period, or empty
-- ARGV[14] and on      witnesses
-- returns {code, now, seq, ...}: {available, version, when the period ends} for ok and duplicate
${ACCOUNT_LUA}${LOTS_LUA}
-- The integer part of amount * part / whole, which are below 2^53, 2^32 and 2^32.
local function share(amount, part, whole)
  local quotient, rest = 0, 0
  for _, unit in ipairs({1099511627776, 1048576, 1}) do
    local sum = rest * 1048576 + math.floor(amount / unit) % 1048576 * part
    quotient = quotient * 1048576 + math.floor(sum / whole)
    rest = sum % whole
  end
  return quotient
end

-- Adjusts the lot of the current period by the difference of the amounts, for the time that is left of it.
local function prorate(allowance, amount, rollover, priority, now)
  local period_end = later_period(allowance, allowance.period, 1)
  local whole = period_end - allowance.period
  local left = math.min(math.max(0, period_end - now), whole)
  local id, place, n = allowance_lot_id(allowance.id, allowance.period), nil, 1
  while lot(n) do
    if lot_id(lot(n)) == id and lot(n).remaining > 0 then place = n end
    n = n + 1
  end
  local current = place and lot(place)
  local delta
  if amount > allowance.granted then
    delta = math.min(share(amount - allowance.granted, left, whole), room_for_credit())
  else
    local less = share(allowance.granted - amount, left, whole)
    delta = 0 - (current and math.max(0, math.min(less, current.remaining, size(totals.av))) or 0)
  end
  if delta == 0 then return end
  totals.g = plus(totals.g, delta)
  totals.av = plus(totals.av, delta)
  write_line(now, 'a', string.format('%s:%d', id, allowance.version), delta, {rest = '"prorated"'})
  if delta < 0 then
    current.remaining = current.remaining + delta
    return
  end
  local expiry, granted, remaining = lot_expiry(allowance, rollover, allowance.period), 0, 0
  if current then
    priority, remaining = tonumber(string.sub(current.member, 1, 3)), current.remaining
    -- The lot of an allowance that was ended is due: it lasts as long as its period again.
    if current.expiry > now then expiry = current.expiry end
    granted = tonumber(string.match(current.member, '%S+$'))
    current.remaining = 0
  end
  -- What was taken back counts in it, too.
  add_lot(id, priority, expiry, math.min(granted + delta, WIDE - 1), remaining + delta)
end

local now, id, amount = clock(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local rollover, priority = ARGV[6], tonumber(ARGV[7])
local ends, is_prorated = tonumber(ARGV[8]) or NEVER, ARGV[9] == 'prorate'
if not load_totals() and ARGV[11] == '1' then return reply(now, 'no_account') end
if not totals then create_account(now) end
check_witnesses(14)
update_credits(now)
local allowance
for _, each in ipairs(load_allowances()) do
  if each.id == id then allowance = each end
end
if not allowance and ends <= now and ARGV[12] == '' then return reply(now, 'ended') end
if not allowance and #allowances >= 10 then return reply(now, 'too_many_allowances') end
if allowance and (allowance.per ~= ARGV[4] or allowance.anchor ~= tonumber(ARGV[5])) then
  return reply(now, 'conflict')
end

-- Also a duplicate is written, so that a repeated command can wait until replicas have it.
allowances_changed = true
local is_known = allowance and (ARGV[10] ~= '' and allowance.version >= tonumber(ARGV[10])
  or allowance.amount == amount and allowance.rollover == rollover and allowance.priority == priority
  and allowance.ends == ends and not (is_prorated and allowance.granted ~= amount))
if not allowance then
  allowance = {id = id, version = 1, per = ARGV[4], anchor = tonumber(ARGV[5]), ends = ends,
    granted = tonumber(ARGV[13]) or amount, amount = amount, rollover = rollover, priority = priority}
  allowance.period = tonumber(ARGV[12]) or period_start(allowance, now)
  allowances[#allowances + 1] = allowance
  if ARGV[12] == '' then grant_periods(allowance, 1, now) end
elseif not is_known then
  allowance.version = allowance.version + 1
  if is_prorated then
    prorate(allowance, amount, rollover, priority, now)
    allowance.granted = amount
  end
  allowance.amount, allowance.rollover, allowance.priority, allowance.ends = amount, rollover, priority, ends
end
local period_end = later_period(allowance, allowance.period, 1)
totals.nx = math.min(totals.nx, period_end)
return reply(now, is_known and 'duplicate' or 'ok', decimal(totals.av), decimal(allowance.version), decimal(period_end))
`,
  (reply) => {
    const code = reply.text();
    const meta = reply.meta();
    switch (code) {
      case 'ok':
      case 'duplicate': {
        const [available, version, resetsAt] = [reply.amount(), reply.count(), reply.count()];
        return { code, available, version, resetsAt, ...meta };
      }
      case 'conflict':
      case 'ended':
      case 'too_many_allowances':
      case 'no_account':
        return { code, ...meta };
      default:
        throw unknownCode(code);
    }
  },
);
