import type { RotateKeyResult } from '../../../contract/key-records.ts';
import { ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript, unknownCode } from './define-script.ts';
import { API_KEYS_LUA } from './keys-lua.ts';

/** Replaces the hash of a recorded key, as `rotateKey` in key-states.ts; returns the hashes that are no longer valid. */
export const rotateKey: LuaScript<
  [clock: string, key: string, hash: string, version: string, overlapMs: string, hashIsTaken: '0' | '1'],
  { readonly result: RotateKeyResult; readonly dropped: readonly string[] }
> = defineScript(
  /* lua */ `#!lua
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] key id
-- ARGV[3] hash         SHA-256 of the new key
-- ARGV[4] version      that the rotation is based on
-- ARGV[5] overlap      ms for which the current hash stays valid
-- ARGV[6] taken        1 if the new hash is, or was last, that of another key
-- returns {code, now, seq, ...}: {version, hash that is dropped, ...} for ok
${ACCOUNT_LUA}${API_KEYS_LUA}
local now, id = clock(ARGV[1]), ARGV[2]
local values = load_totals() and redis.call('HMGET', API_KEYS, id, id .. ':v')
local hash, limits, dates = string.match(values and values[1] or '', '^([^-%s]%S*) (%S+ %S+ %S+ %S+ %S+) (%S+ %S+)$')
if not hash then return reply(now, 'no_key') end
local version, expires, previous, ends = key_marks(values[2])
if hash == ARGV[3] then
  -- Written again, so that a repeated command can wait until replicas have it.
  redis.call('HSET', API_KEYS, id, values[1])
  return reply(now, 'ok', version)
end
if string.sub(dates, -2) ~= ' -' then return reply(now, 'revoked') end
if version ~= ARGV[4] then return reply(now, 'changed') end
if ARGV[6] == '1' or previous == ARGV[3] then return reply(now, 'conflict') end

local dropped = {}
if previous ~= '-' then dropped[#dropped + 1] = previous end
local overlap = tonumber(ARGV[5])
if overlap > 0 then
  previous, ends = hash, decimal(now + overlap)
else
  dropped[#dropped + 1] = hash
  previous, ends = '-', '-'
end
version = decimal(version + 1)
redis.call('HSET', API_KEYS, id, ARGV[3] .. ' ' .. limits .. ' ' .. dates,
  id .. ':v', version .. ' ' .. expires .. ' ' .. previous .. ' ' .. ends)
return reply(now, 'ok', version, unpack(dropped))
`,
  (reply) => {
    const code = reply.text();
    const meta = reply.meta();
    switch (code) {
      case 'ok':
        return { result: { code, version: reply.count(), ...meta }, dropped: reply.texts() };
      case 'changed':
      case 'conflict':
      case 'no_key':
      case 'revoked':
        return { result: { code, ...meta }, dropped: [] };
      default:
        throw unknownCode(code);
    }
  },
);
