import type { CreateKeyResult } from '../../../contract/key-records.ts';
import { ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript, unknownCode } from './define-script.ts';
import { API_KEYS_LUA } from './keys-lua.ts';

/** Records a key, and creates the account if there is none. */
export const createKey: LuaScript<
  [
    clock: string,
    key: string,
    hash: string,
    limits: string,
    name: string,
    expires: string,
    policy: string,
    version: string,
    hashIsTaken: '0' | '1',
    mustExist: '0' | '1',
  ],
  CreateKeyResult
> = defineScript(
  /* lua */ `#!lua
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] key id
-- ARGV[3] hash         SHA-256 of the key
-- ARGV[4] limits       "amounts periods rpm tpm concurrent", with - for none; after a | those of end users
-- ARGV[5] name         JSON
-- ARGV[6] expires      ms, or -; after a p if it is paused
-- ARGV[7] policy       or empty
-- ARGV[8] version      initial version
-- ARGV[9] taken        1 if another key has the hash
-- ARGV[10] must exist  1 to refuse if there is no account
-- returns {code, now, seq}
${ACCOUNT_LUA}${API_KEYS_LUA}
local now, id = clock(ARGV[1]), ARGV[2]
local row = ARGV[3] .. ' ' .. ARGV[4] .. ' '
local known = load_totals() and redis.call('HMGET', API_KEYS, id, id .. ':n', id .. ':v', id .. ':p')
-- A label with counters: a rollback lost the key, and a restored hold has created the label.
local label = known and known[1] and string.sub(known[1], 1, 2) == '- '
if known and known[1] and not label then
  local _, expires = key_marks(known[3])
  local same = string.sub(known[1], 1, #row) == row and known[2] == ARGV[5] and expires == ARGV[6]
    and (known[4] or '') == ARGV[7]
  -- Written again, so that a repeated command can wait until replicas have it.
  if same then redis.call('HSET', API_KEYS, id, known[1]) end
  return reply(now, same and 'ok' or 'conflict')
end
if ARGV[9] == '1' then return reply(now, 'conflict') end

if not totals and ARGV[10] == '1' then return reply(now, 'no_account') end
if not totals then create_account(now) end
local rpm, tpm = string.match(ARGV[4], '^%S+ %S+ (%S+) (%S+)')
local before, created = label and load_key(id), decimal(now)
local key = new_key(id, tonumber(rpm), tonumber(tpm), now)
key.changed = true
if before then
  key.held, key.running, key.spent = before.held, before.running, before.spent
  key.at, key.before = before.at, before.before
  created = string.match(known[1], '(%S+) %S+$')
end
redis.call('HSET', API_KEYS, id, row .. created .. ' -', id .. ':n', ARGV[5])
if ARGV[6] ~= '-' or ARGV[8] ~= '1' then
  redis.call('HSET', API_KEYS, id .. ':v', ARGV[8] .. ' ' .. ARGV[6] .. ' - -')
end
if ARGV[7] ~= '' then redis.call('HSET', API_KEYS, id .. ':p', ARGV[7]) end
return reply(now, 'ok')
`,
  (reply) => {
    const code = reply.text();
    if (code !== 'ok' && code !== 'conflict' && code !== 'no_account') throw unknownCode(code);
    return { code, ...reply.meta() };
  },
);
