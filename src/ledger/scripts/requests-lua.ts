import type { FinalState } from '../ledger.ts';
import { BOOKS_LUA } from './account-lua.ts';
import { API_KEYS_LUA } from './keys-lua.ts';
import { LOTS_LUA } from './lots-lua.ts';

/** Requests and their ends, as in account.ts. */
const REQUESTS_LUA: string = /* lua */ `
local RETENTION = 86400000

-- The state of a request is H held, S settled, V voided or X expired.
local function load_request(id)
  local row = redis.call('HGET', REQUESTS, id)
  if not row then return nil end
  local state, amount, checkpoint, due, window, tokens, key =
    string.match(row, '^(%S) (%S+) (%S+) (%S+) (%S+) (%S+) (%S*)$')
  return {id = id, state = state, amount = tonumber(amount), checkpoint = tonumber(checkpoint), due = tonumber(due),
    window = tonumber(window), tokens = tonumber(tokens), key = key}
end

local function save_request(request)
  local due = text(request.due)
  local requests, dues = saves.requests, saves.due
  requests[#requests + 1] = request.id
  requests[#requests + 1] = string.format('%s %d %d %s %d %d %s', request.state, request.amount, request.checkpoint,
    due, request.window, request.tokens, request.key)
  dues[#dues + 1] = due
  dues[#dues + 1] = request.id
end

-- When a request id was made, in ms.
local function request_time(id)
  return tonumber(string.sub(id, 1, 9), 36)
end

local function forget_at(id, now)
  return math.max(now, request_time(id)) + RETENTION
end

-- Brings a request to its end: the only place that charges, and that gives back. Charges amount in all, counting
-- what its expiry has charged already; what would take the account below its floor is written off.
local function finish(request, state, amount, tokens, now)
  local hold = request.state == 'H' and request.amount or 0
  local already = request.state == 'X' and request.amount or 0
  local covered = size(books.av) + hold + already - books.fl
  local written_off = math.max(0, math.min(amount - covered, amount))
  local charged = amount - written_off
  local moved = charged - already

  books.av = plus(books.av, hold - moved)
  books.h = plus(books.h, 0 - hold)
  books.s = plus(books.s, moved)
  books.wo = plus(books.wo, written_off)
  burn(moved)
  local key = load_key(request.key)
  if key then
    key.held = plus(key.held, 0 - hold)
    if request.state == 'H' then key.running = key.running - 1 end
    if request.window == key.window then key.spent = plus(key.spent, moved) end
    take(key.tokens, key.tpm, tokens - request.tokens, now)
    key.changed = true
  end
  request.state, request.amount, request.due = state, charged, forget_at(request.id, now)
  save_request(request)
  return hold, charged, moved, written_off
end

-- Ends leases that ran out and forgets final records whose time has come, oldest first; says how many.
local function reap(budget, now)
  if budget <= 0 then return 0 end
  local ids = redis.call('ZRANGE', DUE, '-inf', text(now), 'BYSCORE', 'LIMIT', '0', text(budget))
  for n, id in ipairs(ids) do
    local request = load_request(id)
    if not request then
      -- Its record is lost, which only another hand can cause: for an operator to see.
      books.st = 'frozen'
      return n - 1
    end
    if request.state == 'H' then
      local hold, _, moved = finish(request, 'X', request.checkpoint, request.tokens, now)
      write_line(now, 'e', id, moved, {hold = hold, key = request.key})
    else
      saves.forgotten[#saves.forgotten + 1] = id
      books.lw = math.max(books.lw, request_time(id))
    end
  end
  return #ids
end
`;

/** All that a script needs which ends requests. */
export const ENDS_LUA: string = BOOKS_LUA + LOTS_LUA + API_KEYS_LUA + REQUESTS_LUA;

/** The letter that a request's row and the scripts' replies have for a final state. */
export function finalState(letter: string): FinalState {
  if (letter === 'S') return 'settled';
  if (letter === 'V') return 'voided';
  return 'expired';
}
