import { READ_LUA } from './account-lua.ts';
import { defineScript, type Script } from './define-script.ts';

/** The fields of one key that its record is made of; none if there is no such key. */
export const readKey: Script<[key: string], Map<string, string>> = defineScript(
  /* lua */ `#!lua flags=no-writes
-- ARGV[1] key id
-- returns {field, value, ...}
${READ_LUA}
local id = ARGV[1]
local values = redis.call('HMGET', API_KEYS, id, id .. ':n')
if not values[1] then return {} end
return {id, values[1], id .. ':n', values[2]}
`,
  (reply) => new Map(reply.pairs()),
);
