import { READ_LUA, ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript } from './define-script.ts';

/** All fields of an account's keys. */
export const readKeys: LuaScript<[], Map<string, string>> = defineScript(
  /* lua */ `#!lua flags=no-writes
-- returns {field, value, ...}
${READ_LUA}
return redis.call('HGETALL', API_KEYS)
`,
  (reply) => new Map(reply.pairs()),
);

/** The store's time, and the fields of one key, if there is such a key, and of the account's policy, if it has one. */
export const readKey: LuaScript<
  [clock: string, key: string],
  { readonly now: number; readonly fields: Map<string, string> }
> = defineScript(
  /* lua */ `#!lua flags=no-writes
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] key id
-- returns {now, field, value, ...}
${ACCOUNT_LUA}
local names = {ARGV[2], '@', '@:v', '@:p'}
for _, kind in ipairs({':n', ':s', ':v', ':p'}) do names[#names + 1] = ARGV[2] .. kind end
local found = {decimal(clock(ARGV[1]))}
for n, value in ipairs(redis.call('HMGET', API_KEYS, unpack(names))) do
  if value then
    found[#found + 1] = names[n]
    found[#found + 1] = value
  end
end
return found
`,
  (reply) => ({ now: reply.count(), fields: new Map(reply.pairs()) }),
);
