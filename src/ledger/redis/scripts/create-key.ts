import type { CreateKeyResult } from '../../ledger.ts';
import { BOOKS_LUA } from './account-lua.ts';
import { defineScript, type Script, unexpected } from './define-script.ts';
import { API_KEYS_LUA } from './keys-lua.ts';

/** Records a key, and makes the account if there is none. */
export const createKey: Script<
  [clock: string, key: string, terms: string, name: string, hashIsTaken: '0' | '1'],
  CreateKeyResult
> = defineScript(
  /* lua */ `#!lua
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] key id
-- ARGV[3] terms        "hash budget per rpm tpm concurrent", where - is none
-- ARGV[4] name         JSON
-- ARGV[5] taken        1 if another key has the hash
-- returns {code, now, seq}
${BOOKS_LUA}${API_KEYS_LUA}
local now, id = clock(ARGV[1]), ARGV[2]
local known = load_books() and redis.call('HMGET', API_KEYS, id, id .. ':n')
if known and known[1] then
  local same = string.sub(known[1], 1, #ARGV[3] + 1) == ARGV[3] .. ' ' and known[2] == ARGV[4]
  -- Written again, so that who repeats it can wait until replicas have it.
  if same then redis.call('HSET', API_KEYS, id, known[1]) end
  return reply(now, same and 'ok' or 'conflict')
end
if ARGV[5] == '1' then return reply(now, 'conflict') end

if not books then birth() end
local _, per, rpm, tpm = string.match(ARGV[3], '^%S+ (%S+) (%S+) (%S+) (%S+)')
local key = new_key(id, per, tonumber(rpm), tonumber(tpm), now)
key.window = window_start(key, now)
key.changed = true
redis.call('HSET', API_KEYS, id, string.format('%s %d -', ARGV[3], now), id .. ':n', ARGV[4])
return reply(now, 'ok')
`,
  (reply) => {
    const code = reply.text();
    if (code !== 'ok' && code !== 'conflict') throw unexpected(code);
    return { code, ...reply.at() };
  },
);
