/** Periods, as in periods.ts, and the renewal of allowances, as in renewals.ts. They are loaded lazily. */
export const ALLOWANCES_LUA: string = /* lua */ `
-- Months since January of the year 0, and the day of the month, by the proleptic Gregorian calendar: years from March, in
-- cycles of 400.
local function month_of(time)
  local day = math.floor(time / 86400000) + 719468
  local cycle = math.floor(day / 146097)
  local of_cycle = day - cycle * 146097
  local year = math.floor(
    (of_cycle - math.floor(of_cycle / 1460) + math.floor(of_cycle / 36524) - math.floor(of_cycle / 146096)) / 365)
  local of_year = of_cycle - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * of_year + 2) / 153)
  return (cycle * 400 + year) * 12 + month + 2, of_year - math.floor((153 * month + 2) / 5) + 1
end

-- The first day of a month, counted from 1970.
local function first_day(month)
  local year = math.floor((month - 2) / 12)
  local cycle = math.floor(year / 400)
  local of_cycle = year - cycle * 400
  return cycle * 146097 + of_cycle * 365 + math.floor(of_cycle / 4) - math.floor(of_cycle / 100)
    + math.floor((153 * (month - 2 - year * 12) + 2) / 5) - 719468
end

-- When the period of a month begins: on the anchor's day of the month, or on the last day of a shorter month.
local function start_in_month(anchor, month)
  local first = first_day(month)
  local _, day = month_of(anchor)
  return (first + math.min(day, first_day(month + 1) - first) - 1) * 86400000 + anchor % 86400000
end

local function period_length(per)
  if per == 'hour' then return 3600000 end
  if per == 'day' then return 86400000 end
  return 604800000
end

-- Start of the period that a time is in.
local function period_start(allowance, time)
  if allowance.per ~= 'month' then return time - (time - allowance.anchor) % period_length(allowance.per) end
  local month = month_of(time)
  local start = start_in_month(allowance.anchor, month)
  return start > time and start_in_month(allowance.anchor, month - 1) or start
end

-- Start of the period that is count periods after the one that begins at start.
local function later_period(allowance, start, count)
  if allowance.per ~= 'month' then return start + count * period_length(allowance.per) end
  return start_in_month(allowance.anchor, month_of(start) + count)
end

local function periods_between(allowance, start, later)
  if allowance.per ~= 'month' then return (later - start) / period_length(allowance.per) end
  local month = month_of(start)
  return month_of(later) - month
end

local function lot_prefix(id)
  return 'allowance:' .. id .. ':'
end

local function allowance_lot_id(id, start)
  local month, day = month_of(start)
  local second = math.floor(start % 86400000 / 1000)
  return string.format('%s%04d-%02d-%02dT%02d:%02d:%02dZ', lot_prefix(id), math.floor(month / 12), month % 12 + 1, day,
    math.floor(second / 3600), math.floor(second / 60) % 60, second % 60)
end

-- When the lot of the period that begins at start expires.
local function lot_expiry(allowance, rollover, start)
  return rollover == 'all' and NEVER or later_period(allowance, start, rollover == 'once' and 2 or 1)
end

-- In the order in which they were created.
local allowances
local allowances_changed = false

local function load_allowances()
  if allowances then return allowances end
  allowances = {}
  for row in string.gmatch(redis.call('HGET', TOTALS, 'al') or '', '[^;]+') do
    local id, version, per, anchor, ends, period, granted, amount, rollover, priority =
      string.match(row, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
    allowances[#allowances + 1] = {id = id, version = tonumber(version), per = per, anchor = tonumber(anchor),
      ends = tonumber(ends), period = tonumber(period), granted = tonumber(granted), amount = tonumber(amount),
      rollover = rollover, priority = tonumber(priority)}
  end
  return allowances
end

local function save_allowances()
  if not allowances_changed then return end
  local rows = {}
  for n, each in ipairs(allowances) do
    rows[n] = string.format('%s %d %s %d %d %d %d %d %s %d', each.id, each.version, each.per, each.anchor, each.ends,
      each.period, each.granted, each.amount, each.rollover, each.priority)
  end
  redis.call('HSET', TOTALS, 'al', table.concat(rows, ';'))
end

-- How much can be granted until the balance is the largest that is supported.
local function room_for_credit()
  return math.min(WIDE - 1, WIDE - 1 - unspent())
end

-- What the new lot takes over from an open one of the same id: the allowance has ended, and was made again with another
-- period of the same start. What would expire sooner so belongs to no lot any more, and never expires.
local function take_over(id, expiry)
  local n = 1
  while lot(n) do
    local each, remaining = lot(n), lot(n).remaining
    if remaining > 0 and lot_id(each) == id then
      each.remaining = 0
      return expiry >= each.expiry and remaining or 0
    end
    n = n + 1
  end
  return 0
end

-- Makes a lot, which is then the only one of its id.
local function grant_lot(allowance, start, expiry, amount, kept, now)
  local id = allowance_lot_id(allowance.id, start)
  kept = kept + take_over(id, expiry)
  totals.g = plus(totals.g, amount)
  totals.av = plus(totals.av, amount)
  write_line(now, 'g', id, amount, {})
  add_lot(id, allowance.priority, expiry, kept + amount, kept + amount)
end

-- Makes the lot of one period, unless it would expire at once.
local function grant_period(allowance, start, now)
  local expiry = lot_expiry(allowance, allowance.rollover, start)
  local amount = math.min(allowance.amount, room_for_credit())
  if expiry > now and amount > 0 then grant_lot(allowance, start, expiry, amount, 0, now) end
end

-- Makes one lot of all periods and of what earlier lots have left.
local function grant_all(allowance, periods, now)
  local amount = math.min(allowance.amount * periods, room_for_credit())
  if amount <= 0 then return end
  local prefix, kept, n = lot_prefix(allowance.id), 0, 1
  while lot(n) do
    local each = lot(n)
    if each.expiry == NEVER and string.sub(lot_id(each), 1, #prefix) == prefix then
      kept = kept + each.remaining
      each.remaining = 0
    end
    n = n + 1
  end
  grant_lot(allowance, allowance.period, NEVER, amount, kept, now)
end

-- Grants the current period and the missed ones before it, as far as they haven't expired.
local function grant_periods(allowance, periods, now)
  if allowance.rollover == 'all' then return grant_all(allowance, periods, now) end
  if allowance.rollover == 'once' and periods > 1 then
    grant_period(allowance, later_period(allowance, allowance.period, -1), now)
  end
  grant_period(allowance, allowance.period, now)
end

local function renew(allowance, now)
  local current = period_start(allowance, math.min(now, allowance.ends - 1))
  local missed = periods_between(allowance, allowance.period, current)
  if missed <= 0 then return end
  allowance.period = current
  allowance.granted = allowance.amount
  allowances_changed = true
  grant_periods(allowance, missed, now)
end

-- Grants what is due, and deletes allowances that have ended. Returns when the next period ends.
local function renew_allowances(now)
  local next_end, kept = NEVER, {}
  for _, each in ipairs(load_allowances()) do
    renew(each, now)
    local period_end = later_period(each, each.period, 1)
    if period_end > now then
      next_end = math.min(next_end, period_end)
      kept[#kept + 1] = each
    else
      -- Kept until its last period is over, so that this is not granted again.
      allowances_changed = true
    end
  end
  allowances = kept
  return next_end
end

-- Renews allowances that are due, before a charge that they may have to cover.
local function renew_due(now)
  if totals.nx <= now then renew_allowances(now) end
end
`;
