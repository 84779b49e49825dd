import type { RefundResult } from '../../../contract/account-changes.ts';
import { defineScript, type LuaScript, unknownCode } from './define-script.ts';
import { REQUEST_SCRIPT_LUA } from './requests-lua.ts';

/** Takes back a charge, as `refund` in refunds.ts. */
export const refund: LuaScript<
  [
    clock: string,
    requestId: string,
    id: string,
    amount: string,
    charged: string,
    key: string,
    model: string,
    details: string,
    dimensions: string,
    ...witnesses: string[],
  ],
  RefundResult
> = defineScript(
  /* lua */ `#!lua
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] request id
-- ARGV[3] id           under which the refund is remembered
-- ARGV[4] amount       nano-dollars
-- ARGV[5] charged      maximum, if the request is unknown
-- ARGV[6] key id       used if the request is unknown
-- ARGV[7] model        without blanks, used if the request is unknown
-- ARGV[8] details      recorded in the journal as they are
-- ARGV[9] dimensions   " name=value" of each
-- ARGV[10] and on      witnesses
-- returns {code, now, seq, ...}: {available} for ok and duplicate, {charged} for more_than_charged
${REQUEST_SCRIPT_LUA}
-- The holders that a request of a time counts in by the limits that are in force now.
local function holders_at(key_id, end_user, at)
  local holders, key = {}, load_key(key_id)
  holders[1] = key
  local policy = totals.pv > 0 and load_key('@')
  if policy then
    local created = string.match(redis.call('HGET', API_KEYS, '@'), '(%S+) %S+$')
    if tonumber(created) <= at then holders[#holders + 1] = policy end
  end
  local by_key = key and key.users
  if end_user and (by_key or policy and policy.users) then
    holders[#holders + 1] = load_end_user((by_key and key_id or '') .. '~' .. end_user)
  end
  return holders
end

-- Takes back from the counters what a request was charged whose record was deleted. A limit may be younger than the request, and
-- the time of its ID in another window than that of its admission: no counter falls below 0, and none begins a window.
local function give_back(amount, holders, at)
  for _, holder in ipairs(holders) do
    local spent = size(holder.spent)
    if spent > 0 then
      count_charge(holder, 0 - math.min(amount, spent), math.min(at, holder.at))
      local before = charges_before(holder)
      for n, charges in ipairs(before) do
        if size(charges) < 0 then before[n] = '0' end
        if minus(holder.spent, integer(before[n])) < 0 then before[n] = decimal(holder.spent) end
      end
      holder.before = table.concat(before, ',')
    end
  end
end

local now, id, amount = clock(ARGV[1]), ARGV[2], tonumber(ARGV[4])
if not load_totals() then return reply(now, 'no_account') end
check_witnesses(10)
local terms = 'refund ' .. ARGV[4]
local known = redis.call('HGET', PAID, ARGV[3])
if known == terms then
  -- Written again, so that a repeated command can wait until replicas have it.
  redis.call('HSET', PAID, ARGV[3], terms)
  return reply(now, 'duplicate', decimal(totals.av))
end
if known then return reply(now, 'conflict') end
local request = load_request(id)
if request and (request.state == 'H' or request.state == 'X') then return reply(now, 'not_settled') end
local charged = request and request.amount or tonumber(ARGV[5])
if amount > charged then return reply(now, 'more_than_charged', decimal(charged)) end
update_credits(now)
if unspent() + amount >= WIDE then return reply(now, 'too_big') end

local origin = request or {id = id, key = ARGV[6], model = ARGV[7]}
totals.s = plus(totals.s, 0 - amount)
totals.av = plus(totals.av, amount)
if request then
  for _, holder in ipairs(holders_of(request)) do count_charge(holder, 0 - amount, request.at) end
else
  local at = request_time(id)
  give_back(amount, holders_at(ARGV[6], string.match(ARGV[9], ' user=(%S+)'), at), at)
end
count_usage(origin, origin.model, {0, 0, 0, 0, 0, 0, 0, 0 - amount, 0}, ARGV[9])
write_line(now, 'r', id, 0 - amount, {key = origin.key, rest = '=' .. origin.model .. ' ' .. ARGV[8]})
redis.call('HSET', PAID, ARGV[3], terms)
return reply(now, 'ok', decimal(totals.av))
`,
  (reply) => {
    const code = reply.text();
    const meta = reply.meta();
    switch (code) {
      case 'ok':
      case 'duplicate':
        return { code, available: reply.amount(), ...meta };
      case 'more_than_charged':
        return { code, charged: reply.amount(), ...meta };
      case 'conflict':
      case 'not_settled':
      case 'too_big':
      case 'no_account':
        return { code, ...meta };
      default:
        throw unknownCode(code);
    }
  },
);
