import { READ_LUA, ACCOUNT_LUA } from './account-lua.ts';
import type { EndUserRow } from '../../../engine/account-rows.ts';
import { defineScript, type LuaScript } from './define-script.ts';
import { endUserRow } from './key-fields.ts';

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

/** What decides on the counters of an end user. */
export const readEndUser: LuaScript<
  [clock: string, key: string, ...endUsers: string[]],
  {
    readonly now: number;
    /** How many rows there are. */
    readonly endUserCount: number;
    /** Of the key and of the account's policy, if there are any. */
    readonly fields: Map<string, string>;
    readonly rows: Map<string, EndUserRow>;
  }
> = defineScript(
  /* lua */ `#!lua flags=no-writes
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] key id       or empty
-- ARGV[3] and on       ids of end users' rows
-- returns {now, count, {field, value, ...}, {id, counters, ...}}
${ACCOUNT_LUA}
local function found(key, names)
  local list = {}
  for n, value in ipairs(redis.call('HMGET', key, unpack(names))) do
    if value then
      list[#list + 1] = names[n]
      list[#list + 1] = value
    end
  end
  return list
end

local ids = {}
for n = 3, #ARGV do ids[#ids + 1] = ARGV[n] end
return {decimal(clock(ARGV[1])), decimal(math.max(0, redis.call('HLEN', END_USERS) - 1)),
  found(API_KEYS, {'@', ARGV[2]}), found(END_USERS, ids)}
`,
  (reply) => ({
    now: reply.count(),
    endUserCount: reply.count(),
    fields: new Map(reply.nested().pairs()),
    rows: new Map(
      reply
        .nested()
        .pairs()
        .map((pair) => [pair[0], endUserRow(pair)]),
    ),
  }),
);
