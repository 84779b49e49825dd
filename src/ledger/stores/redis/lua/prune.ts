import { ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript } from './define-script.ts';
import { API_KEYS_LUA } from './keys-lua.ts';

/** Deletes those of the end users that a new row would count the same for, as in pruning.ts; returns how many. */
export const pruneEndUsers: LuaScript<[clock: string, ...rows: string[]], number> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] and on       ids of end users' rows
-- returns {how many were deleted}
${ACCOUNT_LUA}${API_KEYS_LUA}
-- As isAsNew in key-limits.ts.
local function is_as_new(row, now)
  if row.running > 0 then return false end
  for _, budget in ipairs(row.budgets or {}) do
    if is_counting(budget.per, row, now) then return false end
  end
  local wait = row.rpm and wait_ms(row.requests, row.rpm, row.rpm, now) or 0
  return wait == 0 and (not row.tpm or wait_ms(row.tokens, row.tpm, row.tpm, now) == 0)
end

local now, ids = clock(ARGV[1]), {}
if not load_totals() then return {'0'} end
for n = 2, #ARGV do
  local row = load_end_user(ARGV[n])
  if row and is_as_new(row, now) then ids[#ids + 1] = ARGV[n] end
end
if #ids > 0 then redis.call('HDEL', END_USERS, unpack(ids)) end
return {decimal(#ids)}
`,
  (reply) => reply.count(),
);

/** A session that will never be used again, and the hashes that lead to it. */
export interface PastSession {
  readonly id: string;
  readonly hashes: readonly string[];
}

/** Those of the sessions that will never be used again, as in pruning.ts; also deletes them if it is to. */
export const pastSessions: LuaScript<
  [clock: string, retentionMs: string, deletes: '0' | '1', ...ids: string[]],
  PastSession[]
> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] retention    how long a session is kept after it expired, in ms
-- ARGV[3] deletes      1 to delete them
-- ARGV[4] and on       ids of keys
-- returns {"id hash previous hash or -", ...}
${ACCOUNT_LUA}${API_KEYS_LUA}
local found, expired_by = {}, clock(ARGV[1]) - tonumber(ARGV[2])
if not load_totals() then return found end
for n = 4, #ARGV do
  local id = ARGV[n]
  local key = load_key(id)
  local _, expires, previous = key_marks(redis.call('HGET', API_KEYS, id .. ':v'))
  local expiry = tonumber(string.match(expires, '%d+'))
  if key and key.recorded and key.running == 0 and expiry and expiry <= expired_by then
    local hash = string.match(redis.call('HGET', API_KEYS, id), '^%S+')
    found[#found + 1] = table.concat({id, hash, previous}, ' ')
    if ARGV[3] == '1' then redis.call('HDEL', API_KEYS, id, id .. ':s', id .. ':n', id .. ':v', id .. ':p') end
  end
end
return found
`,
  (reply) =>
    reply.texts().map((text) => {
      const [id = '', ...hashes] = text.split(' ');
      return { id, hashes: hashes.filter((hash) => hash !== '-') };
    }),
);
