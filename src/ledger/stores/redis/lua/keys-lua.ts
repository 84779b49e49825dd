/** API keys, as in key-states.ts, and the counters of all who have limits, as in key-limits.ts. Loaded lazily. */
export const API_KEYS_LUA: string = /* lua */ `
local MINUTE = 60000
local HOUR = 3600000
local DAY = 86400000
local DEBT_MINUTES = 60
-- In place of the expiry of a key that is paused.
local PAUSED = -1

local api_keys = {}
-- Id of an end user's row -> its counters.
local end_users = {}

-- Makes counters of a key, an account or an end user without any requests.
local function new_counters(holder, now)
  holder.held, holder.running, holder.spent, holder.at, holder.before = 0, 0, 0, now, '0,0,0,0'
  holder.requests = {level = (holder.rpm or 0) * MINUTE, at = now}
  holder.tokens = {level = (holder.tpm or 0) * MINUTE, at = now}
  return holder
end

local function load_counters(holder, packed)
  local held, running, spent, at, before, request_level, request_at, token_level, token_at =
    string.match(packed, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  holder.held, holder.running, holder.spent = integer(held), running + 0, integer(spent)
  holder.at, holder.before = at + 0, before
  holder.requests = {level = request_level + 0, at = request_at + 0}
  holder.tokens = {level = token_level + 0, at = token_at + 0}
  return holder
end

local function packed_counters(holder)
  return string.format('%s %d %s %d %s %d %d %d %d', decimal(holder.held), holder.running, decimal(holder.spent),
    holder.at, holder.before, holder.requests.level, holder.requests.at, holder.tokens.level, holder.tokens.at)
end

-- The budgets of "amount,amount" and "period,period".
local function budgets_of(amounts, periods)
  local one = tonumber(amounts)
  if one then return {{amount = one, per = periods}} end
  local budgets, next_period = {}, string.gmatch(periods, '[^,]+')
  for amount in string.gmatch(amounts, '[^,]+') do
    budgets[#budgets + 1] = {amount = tonumber(amount), per = next_period()}
  end
  return budgets
end

-- A key without any requests.
local function new_key(id, rpm, tpm, now)
  local key = new_counters({budgets = false, rpm = rpm, tpm = tpm}, now)
  api_keys[id] = key
  return key
end

-- Version, expiry, previous hash and its end, as stored: - for none.
local function key_marks(kept)
  if not kept then return '1', '-', '-', '-' end
  return string.match(kept, '^(%S+) (%S+) (%S+) (%S+)$')
end

-- What rows of keys say, by their text: a busy key's is parsed once. A library of functions keeps it from call to call.
local PARSED = {count = 0, terms = {}}
local MAX_PARSED = 1000

local function parse_terms(row, marks)
  local hash, amounts, periods, rpm, tpm, concurrent, revoked =
    string.match(row, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) %S+ (%S+)$')
  local version, expires = key_marks(marks)
  local terms = {
    marks = marks, recorded = hash ~= '-', revoked = revoked ~= '-', version = version, expires = false,
    rpm = tonumber(rpm), tpm = tonumber(tpm), concurrent = tonumber(concurrent),
    budgets = amounts ~= '-' and budgets_of(amounts, periods),
  }
  if expires ~= '-' then terms.expires = tonumber(expires) or PAUSED end
  if not terms.concurrent and concurrent ~= '-' then
    concurrent, terms.users = string.match(concurrent, '^([^|]+)|(.+)$')
    terms.concurrent = tonumber(concurrent)
  end
  return terms
end

-- The limits and dates of a key's row, and of its marks.
local function terms_of(row, marks)
  local terms = PARSED.terms[row]
  if terms and terms.marks == marks then return terms end
  if not terms then
    if PARSED.count == MAX_PARSED then PARSED.count, PARSED.terms = 0, {} end
    PARSED.count = PARSED.count + 1
  end
  terms = parse_terms(row, marks)
  PARSED.terms[row] = terms
  return terms
end

-- Also the account's own row, which has @ as id.
local function load_key(id)
  if api_keys[id] then return api_keys[id] end
  local values = redis.call('HMGET', API_KEYS, id, id .. ':s', id .. ':v')
  if not values[1] then return nil end
  local terms = terms_of(values[1], values[3])
  local key = {
    recorded = terms.recorded, revoked = terms.revoked, version = terms.version, expires = terms.expires,
    rpm = terms.rpm, tpm = terms.tpm, concurrent = terms.concurrent, budgets = terms.budgets, users = terms.users,
    -- Created with these fields, so that the table need not grow.
    held = 0, running = 0, spent = 0, at = 0, before = '', requests = false, tokens = false, changed = false,
  }
  if id == '@' then key.kind = 'account' end
  api_keys[id] = load_counters(key, values[2])
  return key
end

-- Sets the limits of an end user: those of its key or account now, as stored; returns how many end users there may be.
local function limit_end_user(row, limits)
  local amounts, periods, rpm, tpm, concurrent, max =
    string.match(limits, '^([^|]+)|([^|]+)|([^|]+)|([^|]+)|([^|]+)|?(%d*)$')
  row.budgets = amounts ~= '-' and budgets_of(amounts, periods)
  row.rpm, row.tpm, row.concurrent = tonumber(rpm), tonumber(tpm), tonumber(concurrent)
  return tonumber(max) or 10000
end

-- The counters of an end user, with the limits of its key or account now.
local function load_end_user(id)
  if end_users[id] then return end_users[id] end
  local packed = redis.call('HGET', END_USERS, id)
  if not packed then return nil end
  local scope = string.match(id, '^[^~]*')
  local holder = load_key(scope == '' and '@' or scope)
  local row = {kind = 'end_user', budgets = false}
  if holder and holder.users then limit_end_user(row, holder.users) end
  end_users[id] = load_counters(row, packed)
  return row
end

-- The counters of an end user whom key or account limit; shared ones if it has none, and there are as many as may be.
local function open_end_user(scope, end_user, limits, now)
  local id = scope .. '~' .. end_user
  local row = load_end_user(id)
  if row then return row, id, false end
  row = {kind = 'end_user'}
  local max = limit_end_user(row, limits)
  local shares = redis.call('HLEN', END_USERS) - 1 >= max
  if shares then id = scope .. '~' end
  row = shares and load_end_user(id) or new_counters(row, now)
  end_users[id] = row
  return row, id, shares
end

-- Those whose limits a request counts against: its key, its account if that has a policy, and its end user if one of
-- these limits them. And the end of the request's mark, and whether the end user shares its counters.
local function holders_for(key, key_id, end_user, now)
  local holders, mark, shares = {key}, '', false
  local policy = totals.pv > 0 and load_key('@')
  if policy then holders[2], mark = policy, '@' end
  local limits = key.users or policy and policy.users
  if limits and end_user ~= '' then
    local row, id
    row, id, shares = open_end_user(key.users and key_id or '', end_user, limits, now)
    holders[#holders + 1], mark = row, mark .. '>' .. id
  end
  return holders, mark, shares
end

-- The holders that a request counts in.
local function holders_of(request)
  local holders = {}
  if request.in_key then holders[1] = load_key(request.key) end
  if request.in_account then holders[#holders + 1] = load_key('@') end
  if request.end_user then holders[#holders + 1] = load_end_user(request.end_user) end
  return holders
end

save_keys = function()
  for id, key in pairs(api_keys) do
    if key.changed then redis.call('HSET', API_KEYS, id .. ':s', packed_counters(key)) end
  end
  for id, row in pairs(end_users) do
    if row.changed then redis.call('HSET', END_USERS, id, packed_counters(row)) end
  end
end

-- Start of the month of a time, by the proleptic Gregorian calendar: years from March, in cycles of 400.
local function month_start(now)
  local day = math.floor(now / DAY)
  local of_cycle = (day + 719468) % 146097
  local year = math.floor(
    (of_cycle - math.floor(of_cycle / 1460) + math.floor(of_cycle / 36524) - math.floor(of_cycle / 146096)) / 365)
  local of_year = of_cycle - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * of_year + 2) / 153)
  return (day - (of_year - math.floor((153 * month + 2) / 5))) * DAY
end

-- The time whose windows count: the latest one seen, unless it is from before the clock was set back.
local function counting_time(at, now)
  return at > now + MINUTE and now or math.max(at, now)
end

local PERIODS = {'hour', 'day', 'week', 'month'}

-- Start of the window that a time is in, UTC; weeks begin on Monday, and day 0 was a Thursday.
local function window_start(per, time)
  if per == 'hour' then return math.floor(time / HOUR) * HOUR end
  if per == 'day' then return math.floor(time / DAY) * DAY end
  if per == 'month' then return month_start(time) end
  local day = math.floor(time / DAY)
  return (day - (day + 3) % 7) * DAY
end

-- The charges before the windows of now, by period.
local function charges_before(holder)
  local hour, day, week, month = string.match(holder.before, '^(%-?%d+),(%-?%d+),(%-?%d+),(%-?%d+)$')
  return {hour, day, week, month}
end

-- Begins those windows of a time that the holder isn't in.
local function enter_windows(holder, time)
  if time == holder.at then return end
  if math.floor(time / HOUR) ~= math.floor(holder.at / HOUR) then
    local before = charges_before(holder)
    for n, per in ipairs(PERIODS) do
      if window_start(per, time) ~= window_start(per, holder.at) then before[n] = decimal(holder.spent) end
    end
    holder.before = table.concat(before, ',')
  end
  holder.at, holder.changed = time, true
end

-- Counts the charge, or a refund, of a request that was admitted at a time.
local function count_charge(holder, amount, at)
  holder.spent, holder.changed = plus(holder.spent, amount), true
  if math.floor(at / HOUR) == math.floor(holder.at / HOUR) then return end
  local before = charges_before(holder)
  for n, per in ipairs(PERIODS) do
    if window_start(per, at) ~= window_start(per, holder.at) then
      before[n] = decimal(plus(integer(before[n]), amount))
    end
  end
  holder.before = table.concat(before, ',')
end

-- Whether the window that counts is the one that the holder is in.
local function is_counting(per, holder, now)
  local time = counting_time(holder.at, now)
  return per == 'lifetime' or time == holder.at or window_start(per, time) == window_start(per, holder.at)
end

-- The charges in the window of now, exact unless they are more than a budget can be.
local function spent_in(per, holder, now)
  if per == 'lifetime' then return size(holder.spent) end
  if not is_counting(per, holder, now) then return 0 end
  local before = charges_before(holder)
  for n, each in ipairs(PERIODS) do
    if each == per then return minus(holder.spent, integer(before[n])) end
  end
end

-- Adds to a reply what a charge did to the budgets in whose current window it counts: "budget holder row period amount
-- spent before at", the last when the holder has counted latest.
local function add_moved_budgets(result, holders, request, moved)
  for _, holder in ipairs(holders) do
    for _, budget in ipairs(holder.budgets or {}) do
      local per = budget.per
      if per == 'lifetime' or window_start(per, request.at) == window_start(per, holder.at) then
        local spent = per == 'lifetime' and holder.spent or spent_in(per, holder, holder.at)
        local kind = holder.kind or 'key'
        result[#result + 1] = table.concat({'budget', kind, kind == 'end_user' and request.end_user or request.key, per,
          decimal(budget.amount), decimal(spent), decimal(plus(spent, 0 - moved)), decimal(holder.at)}, ' ')
      end
    end
  end
  return result
end

-- The least that a budget of the holders has left, exact unless overrun, with its holder and the budget; nil without any.
local function least_budget(holders, now)
  local least, of, which
  for n = 1, #holders do
    local holder = holders[n]
    if holder.budgets then
      for _, budget in ipairs(holder.budgets) do
        local left = budget.amount - spent_in(budget.per, holder, now) - size(holder.held)
        if not least or left < least then least, of, which = left, holder, budget end
      end
    end
  end
  return least, of, which
end

-- The latest time whose windows count for one of the holders, or now.
local function latest(holders, now)
  local time = now
  for n = 1, #holders do time = math.max(time, counting_time(holders[n].at, now)) end
  return time
end

local function level_at(bucket, limit, now)
  if bucket.at > now + MINUTE then return limit * MINUTE end
  local elapsed = math.min(math.max(0, now - bucket.at), (DEBT_MINUTES + 1) * MINUTE)
  return math.min(limit * MINUTE, bucket.level + elapsed * limit)
end

-- Time until count fits, in ms. A count above the limit fits when the bucket is full.
local function wait_ms(bucket, limit, count, now)
  local missing = math.min(count, limit) * MINUTE - level_at(bucket, limit, now)
  return missing <= 0 and 0 or math.ceil(missing / limit)
end

-- The holder whose limit per minute makes a count wait longest, and how long, in ms; nil if none does.
local function longest_wait(holders, limit, bucket, count, now)
  local by, longest = nil, 0
  for n = 1, #holders do
    local holder = holders[n]
    if holder[limit] then
      local wait = wait_ms(holder[bucket], holder[limit], count, now)
      if wait > longest then by, longest = holder, wait end
    end
  end
  return by, longest
end

-- The state of the limit per minute that has least remaining, "limit remaining reset"; nil without any.
local function tightest(holders, limit, bucket, now)
  local found, least
  for n = 1, #holders do
    local holder = holders[n]
    local most = holder[limit]
    if most then
      local level = level_at(holder[bucket], most, now)
      local remaining = math.max(0, math.floor(level / MINUTE))
      if not least or remaining < least then
        least = remaining
        found = string.format('%d %d %d', most, remaining, math.ceil((most * MINUTE - level) / most))
      end
    end
  end
  return found
end

-- "limit remaining reset" for requests, then for tokens; nil without any such limit.
local function rates(holders, now)
  local first = holders[1]
  if not holders[2] and not (first and (first.rpm or first.tpm)) then return nil end
  local requests, tokens = tightest(holders, 'rpm', 'requests', now), tightest(holders, 'tpm', 'tokens', now)
  if not requests and not tokens then return nil end
  return (requests or '- - -') .. ' ' .. (tokens or '- - -')
end

local function take(bucket, limit, count, now)
  if not limit or count == 0 then return end
  local full = limit * MINUTE
  local level = level_at(bucket, limit, now) - count * MINUTE
  bucket.level = math.max(0 - DEBT_MINUTES * full, math.min(full, level))
  bucket.at = counting_time(bucket.at, now)
end
`;
