/** API keys and their limits, as in key-limits.ts. Keys are loaded lazily. */
export const API_KEYS_LUA: string = /* lua */ `
local MINUTE = 60000
local DAY = 86400000
local DEBT_MINUTES = 60

local api_keys = {}

-- A key without any requests.
local function new_key(id, per, rpm, tpm, now)
  local key = {id = id, per = per, rpm = rpm, tpm = tpm, held = 0, running = 0, spent = 0, window = 0}
  key.requests = {level = (rpm or 0) * MINUTE, at = now}
  key.tokens = {level = (tpm or 0) * MINUTE, at = now}
  api_keys[id] = key
  return key
end

-- Version, expiry, previous hash and its end, as stored: - for none.
local function key_marks(kept)
  if not kept then return '1', '-', '-', '-' end
  return string.match(kept, '^(%S+) (%S+) (%S+) (%S+)$')
end

local function load_key(id)
  if api_keys[id] then return api_keys[id] end
  local values = redis.call('HMGET', API_KEYS, id, id .. ':s', id .. ':v')
  if not values[1] then return nil end
  local hash, budget, per, rpm, tpm, concurrent, revoked =
    string.match(values[1], '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) %S+ (%S+)$')
  local held, running, spent, window, request_level, request_at, token_level, token_at =
    string.match(values[2], '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  local version, expires = key_marks(values[3])
  local key = {
    id = id, recorded = hash ~= '-', revoked = revoked ~= '-', version = version, expires = tonumber(expires),
    budget = tonumber(budget), per = per, rpm = tonumber(rpm), tpm = tonumber(tpm),
    concurrent = tonumber(concurrent),
    held = integer(held), running = tonumber(running), spent = integer(spent), window = tonumber(window),
    requests = {level = tonumber(request_level), at = tonumber(request_at)},
    tokens = {level = tonumber(token_level), at = tonumber(token_at)},
  }
  api_keys[id] = key
  return key
end

save_keys = function()
  for id, key in pairs(api_keys) do
    if key.changed then
      redis.call('HSET', API_KEYS, id .. ':s', string.format('%s %d %s %d %d %d %d %d', decimal(key.held), key.running,
        decimal(key.spent), key.window, key.requests.level, key.requests.at, key.tokens.level, key.tokens.at))
    end
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

-- Start of the budget window that a time is in, UTC; weeks begin on Monday, and day 0 was a Thursday.
local function window_start(key, now)
  if key.per == 'day' then return math.floor(now / DAY) * DAY end
  if key.per == 'week' then
    local day = math.floor(now / DAY)
    return (day - (day + 3) % 7) * DAY
  end
  if key.per == 'month' then return month_start(now) end
  return 0
end

-- The rest of the key's budget in the window of now, exact unless overrun; nil without a budget.
local function budget_left(key, now)
  if not key.budget then return nil end
  local spent = window_start(key, now) > key.window and 0 or size(key.spent)
  return key.budget - spent - size(key.held)
end

-- Moves the key's budget to the window of now, never back to an earlier one.
local function enter_window(key, now)
  local start = window_start(key, now)
  if start > key.window then key.window, key.spent, key.changed = start, 0, true end
end

local function level_at(bucket, limit, now)
  local elapsed = math.min(math.max(0, now - bucket.at), (DEBT_MINUTES + 1) * MINUTE)
  return math.min(limit * MINUTE, bucket.level + elapsed * limit)
end

-- Time until count fits, in ms. A count above the limit fits when the bucket is full.
local function wait_ms(bucket, limit, count, now)
  if not limit then return 0 end
  local missing = math.min(count, limit) * MINUTE - level_at(bucket, limit, now)
  return missing <= 0 and 0 or math.ceil(missing / limit)
end

local function rate(bucket, limit, now)
  if not limit then return '- - -' end
  local level = level_at(bucket, limit, now)
  return string.format('%d %d %d', limit, math.max(0, math.floor(level / MINUTE)),
    math.ceil((limit * MINUTE - level) / limit))
end

-- "limit remaining reset" for requests, then for tokens; nil for a key with neither limit.
local function rates(key, now)
  if not key or not (key.rpm or key.tpm) then return nil end
  return rate(key.requests, key.rpm, now) .. ' ' .. rate(key.tokens, key.tpm, now)
end

local function take(bucket, limit, count, now)
  if not limit or count == 0 then return end
  local full = limit * MINUTE
  local level = level_at(bucket, limit, now) - count * MINUTE
  bucket.level = math.max(0 - DEBT_MINUTES * full, math.min(full, level))
  bucket.at = math.max(bucket.at, now)
end
`;
