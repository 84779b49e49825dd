import type { UpdateKeyResult } from '../../../contract/key-records.ts';
import { ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript, unknownCode } from './define-script.ts';
import { API_KEYS_LUA } from './keys-lua.ts';

/** Replaces the terms of a recorded key, as `updateKey` in key-states.ts. */
export const updateKey: LuaScript<
  [
    clock: string,
    key: string,
    version: string,
    limits: string,
    name: string,
    expires: string,
    policy: string,
  ],
  UpdateKeyResult
> = defineScript(
  /* lua */ `#!lua
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] key id, or @ for the account's own row
-- ARGV[3] version      that the new terms are based on
-- ARGV[4] limits       "amounts periods rpm tpm concurrent", with - for none; after a | those of end users
-- ARGV[5] name         JSON
-- ARGV[6] expires      ms, or -; after a p if it is paused
-- ARGV[7] policy       or empty
-- returns {code, now, seq, ...}: {version} for ok
${ACCOUNT_LUA}${API_KEYS_LUA}
local now, id = clock(ARGV[1]), ARGV[2]
local key = load_totals() and load_key(id)
if not totals or id ~= '@' and not (key and key.recorded) then return reply(now, 'no_key') end
local values = redis.call('HMGET', API_KEYS, id, id .. ':n', id .. ':v', id .. ':p')
if not key then
  key = new_key(id, nil, nil, now)
  values = {'- none ' .. decimal(now) .. ' -', '""', '0 - - -'}
end
local hash, limits, dates = string.match(values[1], '^(%S+) (%S.*) (%S+ %S+)$')
local version, expires, previous, ends = key_marks(values[3])
if limits == ARGV[4] and values[2] == ARGV[5] and expires == ARGV[6] and (values[4] or '') == ARGV[7] then
  -- Written again, so that a repeated command can wait until replicas have it.
  redis.call('HSET', API_KEYS, id, values[1])
  return reply(now, 'ok', version)
end
if version ~= ARGV[3] then return reply(now, 'changed') end

local rpm, tpm = string.match(ARGV[4], '^%S+ %S+ (%S+) (%S+)')
rpm, tpm = tonumber(rpm), tonumber(tpm)
if rpm ~= key.rpm then key.requests = {level = (rpm or 0) * MINUTE, at = now} end
if tpm ~= key.tpm then key.tokens = {level = (tpm or 0) * MINUTE, at = now} end
key.changed = true
version = decimal(version + 1)
redis.call('HSET', API_KEYS, id, hash .. ' ' .. ARGV[4] .. ' ' .. dates, id .. ':n', ARGV[5],
  id .. ':v', version .. ' ' .. ARGV[6] .. ' ' .. previous .. ' ' .. ends)
if id == '@' then redis.call('HSET', TOTALS, 'pv', version) end
if ARGV[7] == '' then redis.call('HDEL', API_KEYS, id .. ':p') else redis.call('HSET', API_KEYS, id .. ':p', ARGV[7]) end
return reply(now, 'ok', version)
`,
  (reply) => {
    const code = reply.text();
    const meta = reply.meta();
    switch (code) {
      case 'ok':
        return { code, version: reply.count(), ...meta };
      case 'changed':
      case 'no_key':
        return { code, ...meta };
      default:
        throw unknownCode(code);
    }
  },
);
