/**
 * The shared part of all scripts of an account: its keys, exact arithmetic, its
 * totals and its journal. Prepended to each script.
 *
 * A script reads, decides and changes Lua tables; `reply` writes the changes. A new
 * account, a new key and a new lot are written where they are made.
 */

/** Names of an account's Redis keys, in the order of KEYS. They share a hash tag, hence a slot. */
export const ACCOUNT_KEYS = ['a', 'r', 'd', 'k', 'j', 'g', 'l', 'x', 'u', 'e'] as const;

/** A member of each collection from the account's creation on, so that its key exists when a slot migrates. */
export const SENTINEL = ' ';

/** Documentation of the keys, once for all scripts of an account. */
const COLLECTIONS = /* lua */ `
-- KEYS[1] a  hash   the totals: av h g s x wo fl st q lw fw nx; pv, the version of the
--                   account's policy, if it has one; nd, when the next of d is due, or earlier; l1, what the
--                   first lot in burn order has left, or -1; jq jg js jx jw of the compacted lines; ver, the version
--                   of this layout. If there are any: al, the allowances; lo, the lowest floor
-- KEYS[2] r  hash   request id -> state amount checkpoint due mark tokens key, hashes of idempotency key and body
--                   if it has one, =model and line; if voided also ending and provider. And
--                   the mark is when it was admitted; then ! unless it counts in its key, @ if it counts in its account,
--                   and, after a >, the end user that it counts in.
--                   key:hash of idempotency key -> the last request admitted with it
-- KEYS[3] d  zset   request id -> when its lease ends or its record may be deleted
-- KEYS[4] k  hash   key id -> hash, limits and dates; id:s -> its counters; id:n -> its name, as JSON; id:p -> its policy;
--                   id:v -> its version, expiry (after a p if it is paused), previous hash and when that ends; without
--                   it version 1 and none of these. @ is the account's own row, once it has a policy
-- KEYS[5] j  list   the journal, after the sentinel, which stays the first element when lines are compacted
-- KEYS[6] g  hash   id of a grant or adjustment -> its parameters
-- KEYS[7] l  hash   open lot -> its remaining amount; for the first it is l1 instead, unless that is -1
-- KEYS[8] x  zset   open lots in burn order: "priority expiry id amount", all of score 0
-- KEYS[9] u  hash   "day key model", the day counted from 1970 -> requests errors aborted, prompt cached completion
--                   and reasoning tokens, charged, cost; the sentinel -> the charges of compacted rows
-- KEYS[10] e hash   end user, after the key whose limits it has and a ~ -> its counters
-- Every collection has a sentinel, a space, from the creation of the account.
local TOTALS = KEYS[1]
local REQUESTS = KEYS[2]
local DUE = KEYS[3]
local API_KEYS = KEYS[4]
local JOURNAL = KEYS[5]
local PAID = KEYS[6]
local LOTS = KEYS[7]
local BURN_ORDER = KEYS[8]
local USAGE = KEYS[9]
local END_USERS = KEYS[10]
local SENTINEL = ' '
`;

/**
 * Integers: a Lua number below 2^53, else a string of decimal digits. The amount
 * that a single command moves is always a number.
 */
const NUMBERS = /* lua */ `
local WIDE = 9007199254740992

-- Adding 0 makes a number of a string, without a call.
local function decimal(n)
  if n + 0 < WIDE or type(n) == 'number' then return string.format('%d', n) end
  return n
end

local function integer(digits)
  local n = digits + 0
  if n < WIDE then return n end
  return digits
end

local function limbs(n)
  local digits = decimal(n)
  return tonumber(string.sub(digits, 1, -10)) or 0, tonumber(string.sub(digits, -9))
end

-- n + m. Only m may be negative, and only if it is a number. Digits below 2^53 will do as well.
local function plus(n, m)
  local sum = n + m
  if sum < WIDE and n + 0 < WIDE and m + 0 < WIDE then return sum end
  local high, low = limbs(n)
  if type(m) == 'number' and m < 0 then
    local less_high, less_low = limbs(0 - m)
    high, low = high - less_high, low - less_low
    if low < 0 then high, low = high - 1, low + 1000000000 end
  else
    local more_high, more_low = limbs(m)
    high, low = high + more_high, low + more_low
    if low >= 1000000000 then high, low = high + 1, low - 1000000000 end
  end
  return integer(string.format('%d%09d', high, low))
end

-- n - m, exact below 2^53.
local function minus(n, m)
  if type(n) == 'number' and type(m) == 'number' then return n - m end
  local high, low = limbs(n)
  local less_high, less_low = limbs(m)
  return (high - less_high) * 1000000000 + low - less_low
end

-- For comparison with a number: a string is rounded, and stays greater than any number.
local function size(n)
  return n + 0
end
`;

const TOTALS = /* lua */ `
local FIELDS = {'av', 'h', 'g', 's', 'x', 'wo', 'fl', 'q', 'lw', 'nx', 'fw', 'nd', 'l1'}
local NEVER = 9007199254740992
-- Incremented when the layout changes.
local VERSION = '3'

-- before: the stored values, in the order of FIELDS, then the state.
local totals, before
local save_lots, save_keys, save_usage
-- Whether a witness of this command is missing.
local rolled_back = false
-- What this command writes: fields and values of requests, scores and ids, lines, ids, fields.
local saved_requests = {}
local saved_dues = {}
local saved_lines = {}
local deleted_requests = {}
local freed_fields = {}

-- Loads the account's totals; nil if there is no account.
local function load_totals()
  local values = redis.call('HMGET', TOTALS, 'av', 'h', 'g', 's', 'x', 'wo', 'fl', 'q', 'lw', 'nx', 'fw', 'nd',
    'l1', 'st', 'ver', 'pv')
  if not values[1] then return nil end
  if values[15] ~= VERSION then
    error('the account has version ' .. tostring(values[15]) .. '; this release supports only version ' .. VERSION)
  end
  -- Created with all of its fields, so that the table need not grow.
  totals = {av = '', h = '', g = '', s = '', x = '', wo = '', fl = '', q = '', lw = '', nx = '', fw = '', nd = '', l1 = '',
    st = values[14], pv = tonumber(values[16] or 0)}
  for i = 1, #FIELDS do
    local n = values[i] + 0
    if n < WIDE or FIELDS[i] == 'nx' then values[i] = n end
    totals[FIELDS[i]] = values[i]
  end
  before = values
  return totals
end

-- Whether the account was deleted, a short while ago or not completely yet.
local function was_deleted()
  return redis.call('HEXISTS', TOTALS, 'gone') == 1 or redis.call('HEXISTS', TOTALS, 'del') == 1
end

-- Creates the account. One that lost its totals, but has other keys, is not re-created. Where one of its id was deleted
-- within a day, all requests until then were that one's.
local function create_account(now)
  local low_water = 0
  local gone = redis.call('HGET', TOTALS, 'gone')
  if gone then
    if tonumber(gone) > now - 86400000 then low_water = math.min(tonumber(gone), now) end
    redis.call('DEL', TOTALS)
  end
  if redis.call('HEXISTS', TOTALS, 'del') == 1 then error('the deletion of the account was cut short: repeat it') end
  if redis.call('EXISTS', unpack(KEYS)) > 0 then error('the account has lost its totals') end
  redis.call('HSET', TOTALS, 'ver', VERSION, 'av', '0', 'h', '0', 'g', '0', 's', '0', 'x', '0', 'wo', '0', 'fl', '0',
    'q', '0', 'lw', decimal(low_water), 'fw', '0', 'nx', '9007199254740992', 'nd', '0', 'l1', '-1', 'st', 'open',
    'jq', '0', 'jg', '0', 'js', '0', 'jx', '0', 'jw', '0')
  redis.call('HSET', REQUESTS, SENTINEL, '')
  redis.call('ZADD', DUE, '+inf', SENTINEL)
  redis.call('HSET', API_KEYS, SENTINEL, '')
  redis.call('RPUSH', JOURNAL, SENTINEL)
  redis.call('HSET', PAID, SENTINEL, '')
  redis.call('HSET', LOTS, SENTINEL, '')
  redis.call('ZADD', BURN_ORDER, '1', SENTINEL)
  redis.call('HSET', USAGE, SENTINEL, '0')
  redis.call('HSET', END_USERS, SENTINEL, '')
  return load_totals()
end

local function save_totals()
  local changed = {}
  for i = 1, #FIELDS do
    local field = FIELDS[i]
    if totals[field] ~= before[i] then
      changed[#changed + 1] = field
      changed[#changed + 1] = decimal(totals[field])
    end
  end
  if totals.st ~= before[#FIELDS + 1] then
    changed[#changed + 1] = 'st'
    changed[#changed + 1] = totals.st
  end
  if #changed > 0 then redis.call('HSET', TOTALS, unpack(changed)) end
end

-- A line is "type seq at id amount available hold writtenOff key rest", with - for none.
local function write_line(now, kind, id, amount, more)
  totals.q = plus(totals.q, 1)
  saved_lines[#saved_lines + 1] = string.format('%s %s %d %s %d %s %s %s %s %s', kind, decimal(totals.q), now, id,
    amount, decimal(totals.av), more.hold and decimal(more.hold) or '-',
    more.written_off and decimal(more.written_off) or '-', more.key or '-', more.rest or '-')
end

-- What can be spent: the balance, and what the floor allows below 0. Negative if an operator took more.
local function spendable()
  return totals.fl == 0 and totals.av or plus(totals.av, 0 - totals.fl)
end

-- Writes all changes. Checks the totals each time: if they don't add up, which only a bug can cause, the
-- account is frozen as it is and nothing is repaired.
local function reply(now, code, ...)
  if not totals then return {code, decimal(now), '0', was_deleted() and '2' or '0'} end
  if plus(plus(plus(totals.s, totals.x), totals.h), totals.av) ~= totals.g then totals.st = 'frozen' end
  if save_lots then save_lots() end
  save_totals()
  if #deleted_requests > 0 then
    redis.call('HDEL', REQUESTS, unpack(deleted_requests))
    redis.call('ZREM', DUE, unpack(deleted_requests))
  end
  -- Before requests are saved: one of them may take over a freed idempotency key.
  if #freed_fields > 0 then redis.call('HDEL', REQUESTS, unpack(freed_fields)) end
  if #saved_requests > 0 then redis.call('HSET', REQUESTS, unpack(saved_requests)) end
  if #saved_dues > 0 then redis.call('ZADD', DUE, unpack(saved_dues)) end
  if save_keys then save_keys() end
  if save_usage then save_usage() end
  if #saved_lines > 0 then redis.call('RPUSH', JOURNAL, unpack(saved_lines)) end
  return {code, decimal(now), decimal(totals.q), rolled_back and '1' or '0', ...}
end

-- The time at which a request id was made, in ms.
local function request_time(id)
  return tonumber(string.sub(id, 1, 9), 36)
end

-- The line at a position; nil once it is compacted. Only valid before this command writes lines.
local function line_at(seq)
  local line = redis.call('LINDEX', JOURNAL, decimal(seq - totals.q - 1))
  return line ~= SENTINEL and line or nil
end

-- Whether an unknown request may be one that cost nothing and was deleted.
local function may_be_deleted_free(id)
  return request_time(id) <= math.max(totals.lw, totals.fw)
end

-- Whether a witness is present, or may have been compacted or deleted since. A witness is "seq at id" for a line;
-- "H hold id", "S id", "F id" (charged 0) or "V id" for a request; "P id" for a payment.
local function is_present(witness)
  local seq = tonumber(string.match(witness, '^%-?%d+'))
  if seq then
    if seq > size(totals.q) then return false end
    local line = line_at(seq)
    if not line or string.sub(line, 3, 3 + #witness) == witness .. ' ' then return true end
    -- Any command may have expired credits or renewed an allowance, and written that line last.
    local due = string.match(line, '^x (%S+ %S+) ') or string.match(line, '^g (%S+ %S+) allowance:')
    return due == string.match(witness, '^%S+ %S+')
  end
  local kind, rest = string.sub(witness, 1, 1), string.sub(witness, 3)
  if kind == 'P' then return redis.call('HEXISTS', PAID, rest) == 1 end
  local id = string.sub(rest, -19)
  local row = redis.call('HGET', REQUESTS, id)
  -- Once deleted, its id may be in use again. What was held may have been voided without its holder's knowledge.
  if (kind == 'F' or kind == 'V' or kind == 'H' and not row) and may_be_deleted_free(id) then return true end
  if not row then return request_time(id) <= totals.lw end
  local state, amount = string.match(row, '^(%S) (%S+)')
  if kind ~= 'H' then return state == (kind == 'V' and 'V' or 'S') end
  return state ~= 'H' or tonumber(amount) >= tonumber(string.match(rest, '^%S+'))
end

-- Checks the witnesses, which are the arguments from the n-th on; returns whether one is missing.
local function check_witnesses(n)
  for i = n, #ARGV do
    if totals and not is_present(ARGV[i]) then rolled_back = true end
  end
  return rolled_back
end

-- Leases that run out later are not ended yet, whatever the clock shows.
local lease_horizon = NEVER

-- The time in ms: the store's clock, or Redis's own if empty. Also sets the horizon of leases, given after a <.
local function clock(given)
  if given ~= '' then
    local now, horizon = string.match(given, '^([^<]*)<?(.*)$')
    lease_horizon = tonumber(horizon) or NEVER
    if now ~= '' then return tonumber(now) end
  end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
`;

/** For read-only scripts. */
export const READ_LUA: string = COLLECTIONS;

/** For scripts that write totals and journal; other data needs further parts. */
export const ACCOUNT_LUA: string = COLLECTIONS + NUMBERS + TOTALS;
