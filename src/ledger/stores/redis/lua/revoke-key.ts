import { ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript } from './define-script.ts';
import { API_KEYS_LUA } from './keys-lua.ts';

/** Revokes a recorded key, keeping the time of the first revocation; returns whether there is such a key. */
export const revokeKey: LuaScript<[clock: string, key: string], boolean> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] key id
-- returns {code}
${ACCOUNT_LUA}${API_KEYS_LUA}
local row = redis.call('HGET', API_KEYS, ARGV[2])
local terms, revoked = string.match(row or '- -', '^(%S.*) (%S+)$')
if string.sub(terms, 1, 1) == '-' then return {'no_key'} end
if revoked == '-' then
  local version, expires, previous, ends = key_marks(redis.call('HGET', API_KEYS, ARGV[2] .. ':v'))
  redis.call('HSET', API_KEYS, ARGV[2], terms .. ' ' .. decimal(clock(ARGV[1])),
    ARGV[2] .. ':v', table.concat({decimal(version + 1), expires, previous, ends}, ' '))
else
  -- Written again, so that a repeated command can wait until replicas have it.
  redis.call('HSET', API_KEYS, ARGV[2], row)
end
return {'ok'}
`,
  (reply) => reply.text() === 'ok',
);
