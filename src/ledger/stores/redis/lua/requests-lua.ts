import { ACCOUNT_LUA } from './account-lua.ts';
import { API_KEYS_LUA } from './keys-lua.ts';
import { LOTS_LUA } from './lots-lua.ts';
import { USAGE_LUA } from './usage-lua.ts';

/** Requests and their ends, as in account-engine.ts. */
const REQUESTS_LUA: string = /* lua */ `
local RETENTION = 86400000
-- For nothing that is due.
local LAST_MS = 9007199254740991
-- For a request that cost nothing and has no idempotency key.
local FREE_RETENTION = 600000

-- Request id -> the request as changed by this command; false if deleted.
local changed_requests = {}

-- The state is H held, S settled, V voided or X expired; hashes is '' or two hashes, each after a space.
local function load_request(id)
  local row = redis.call('HGET', REQUESTS, id)
  if not row then return nil end
  local state, amount, checkpoint, due, mark, tokens, key, hashes, model, line =
    string.match(row, '^(%S) (%S+) (%S+) (%S+) (%S+) (%S+) (%S*)(.-) =(%S*) (%S+)')
  local request = {id = id, state = state, amount = amount + 0, checkpoint = checkpoint + 0,
    due = due + 0, mark = mark, at = tonumber(mark), in_key = true, tokens = tokens + 0, key = key,
    hashes = hashes, model = model, line = line, ended = ''}
  if not request.at then
    local at, no_key, in_account, end_user = string.match(mark, '^(%d+)(!?)(@?)>?(%S*)$')
    request.at, request.in_key, request.in_account = tonumber(at), no_key == '', in_account ~= ''
    if end_user ~= '' then request.end_user = end_user end
  end
  return request
end

local function save_request(request)
  local due = decimal(request.due)
  saved_requests[#saved_requests + 1] = request.id
  saved_requests[#saved_requests + 1] = string.format('%s %d %d %s %s %d %s%s =%s %s%s', request.state, request.amount,
    request.checkpoint, due, request.mark, request.tokens, request.key, request.hashes, request.model, request.line,
    request.ended)
  saved_dues[#saved_dues + 1] = due
  saved_dues[#saved_dues + 1] = request.id
  totals.nd = math.min(totals.nd, request.due)
  changed_requests[request.id] = request
end

-- The field that maps an idempotency key to its request.
local function idempotency_field(key, idempotency_key)
  return key .. ':' .. idempotency_key
end

-- The request, not voided, that was admitted for this API key with this idempotency key; and the hash of its body.
local function load_duplicate(key, idempotency_key)
  local id = redis.call('HGET', REQUESTS, idempotency_field(key, idempotency_key))
  if not id then return nil end
  local duplicate = changed_requests[id]
  if duplicate == nil then duplicate = load_request(id) end
  if duplicate and duplicate.state ~= 'V' then return duplicate, string.sub(duplicate.hashes, 67) end
end

local function save_idempotency_key(request, idempotency_key)
  saved_requests[#saved_requests + 1] = idempotency_field(request.key, idempotency_key)
  saved_requests[#saved_requests + 1] = request.id
end

local function free_idempotency_key(request)
  if request.hashes == '' then return end
  local field = idempotency_field(request.key, string.sub(request.hashes, 2, 65))
  if redis.call('HGET', REQUESTS, field) == request.id then freed_fields[#freed_fields + 1] = field end
  request.hashes = ''
end

local function delete_request(request)
  deleted_requests[#deleted_requests + 1] = request.id
  changed_requests[request.id] = false
  free_idempotency_key(request)
end

local function delete_at(id, now, is_free)
  return math.max(now, request_time(id)) + (is_free and FREE_RETENTION or RETENTION)
end

-- Ends a request: the only function that charges and releases. Charges amount in total, including what its expiry has
-- charged already; what would take the account below its floor is written off, unless in parts. The usage is counted here
-- too, replacing what the expiry has counted: errors, aborted, tokens and cost, in the order of count_usage, with the
-- request's dimensions.
local function finish(request, state, amount, tokens, now, model, usage, dimensions, in_parts)
  local hold = request.state == 'H' and request.amount or 0
  local already = request.state == 'X' and request.amount or 0
  local covered = hold + already + math.max(0, size(spendable()))
  local rest = math.max(0, amount - covered)
  local written_off = in_parts and 0 or rest
  local charged = amount - rest
  local moved = charged - already

  totals.av = plus(totals.av, hold - moved)
  totals.h = plus(totals.h, 0 - hold)
  totals.s = plus(totals.s, moved)
  totals.wo = plus(totals.wo, written_off)
  burn(moved)
  local holders = holders_of(request)
  for n = 1, #holders do
    local holder = holders[n]
    holder.held = plus(holder.held, 0 - hold)
    if request.state == 'H' then holder.running = holder.running - 1 end
    count_charge(holder, moved, request.at)
    take(holder.tokens, holder.tpm, tokens - request.tokens, now)
  end
  -- An orphan has no line yet, and was not counted.
  local is_counted = request.state == 'X' and request.line ~= '-'
  if is_counted then count_usage(request, request.model, {-1, -1, 0, 0, 0, 0, 0, 0 - already, 0}) end
  usage[1], usage[8] = 1, is_counted and charged or moved
  count_usage(request, model, usage, dimensions)
  local is_free = amount == 0 and (state == 'V' or state == 'S' and request.hashes == '')
  request.state, request.amount, request.due, request.model = state, charged, delete_at(request.id, now, is_free), model
  -- The line that the caller writes next. A voided request has none, or only a correction, which doesn't describe it.
  request.line = state == 'V' and '-' or decimal(plus(totals.q, 1))
  if state == 'V' then free_idempotency_key(request) end
  save_request(request)
  return hold, charged, moved, written_off
end

-- Whether only a part of the cost was posted, and the rest was not written off.
local function is_charged_in_part(request, amount)
  if request.amount >= amount then return false end
  local posted = line_at(request.line)
  return not posted or string.match(posted, '^' .. string.rep('%S+ ', 7) .. '(%S+)') == '-'
end

-- Charges a further part of a request, as far as the balance covers it now; returns whether anything was charged.
local function charge_more(request, amount, now, dimensions)
  if not is_charged_in_part(request, amount) then return false end
  local moved = math.min(amount - request.amount, size(spendable()))
  if moved <= 0 then return false end
  totals.av = plus(totals.av, 0 - moved)
  totals.s = plus(totals.s, moved)
  burn(moved)
  for _, holder in ipairs(holders_of(request)) do count_charge(holder, moved, request.at) end
  count_usage(request, request.model, {0, 0, 0, 0, 0, 0, 0, moved, 0}, dimensions)
  -- It cost nothing until now; from now on its record is kept as long as any other.
  if request.amount == 0 then request.due = math.max(request.due, delete_at(request.id, now, false)) end
  request.amount = request.amount + moved
  save_request(request)
  write_line(now, 'l', request.id, moved, {key = request.key})
  update_credits(now)
  return true
end

-- Ends leases that ran out, up to the horizon, and deletes final records that are due, oldest first; returns how many.
local function reap(budget, now)
  -- A negative limit would mean no limit.
  if budget <= 0 or now < totals.nd then return 0 end
  local count = 0
  local ids = redis.call('ZRANGE', DUE, '-inf', decimal(now), 'BYSCORE', 'LIMIT', '0', decimal(budget))
  if #ids < budget then
    local later = redis.call('ZRANGE', DUE, '(' .. decimal(now), '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
    totals.nd = math.min(tonumber(later[2]), LAST_MS)
  end
  for _, id in ipairs(ids) do
    local request = load_request(id)
    if not request then
      -- Its record is missing, which only a change from outside can cause: left for an operator.
      totals.st = 'frozen'
      totals.nd = 0
      return count
    end
    if request.state ~= 'H' then
      delete_request(request)
      local time = request_time(id)
      -- Deleted early, so it cost nothing: records of that age that cost something still exist.
      local mark = request.due < time + RETENTION and 'fw' or 'lw'
      totals[mark] = math.max(totals[mark], time)
      count = count + 1
    elseif request.due <= lease_horizon then
      local hold, _, moved = finish(request, 'X', request.checkpoint, request.tokens, now, request.model,
        {1, 1, 0, 0, 0, 0, 0, 0, 0})
      write_line(now, 'e', id, moved, {hold = hold, key = request.key})
      count = count + 1
    else
      totals.nd = math.min(totals.nd, request.due)
    end
  end
  return count
end
`;

/** All shared parts, for scripts of requests. */
export const REQUEST_SCRIPT_LUA: string = ACCOUNT_LUA + LOTS_LUA + API_KEYS_LUA + USAGE_LUA + REQUESTS_LUA;
