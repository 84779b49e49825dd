import { READ_LUA } from './account-lua.ts';
import { defineScript, type Script } from './define-script.ts';

/** All fields of an account's keys. */
export const readKeys: Script<[], Map<string, string>> = defineScript(
  /* lua */ `#!lua flags=no-writes
-- returns {field, value, ...}
${READ_LUA}
return redis.call('HGETALL', API_KEYS)
`,
  (reply) => new Map(reply.pairs()),
);
