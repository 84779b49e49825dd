import { defineScript, type LuaScript } from './define-script.ts';

/** The key that a hash points to: "account key", or empty. */
export const readPointer: LuaScript<[], string> = defineScript(
  /* lua */ `#!lua flags=no-writes
-- KEYS[1] string       "account key"
-- returns {its value, or empty}
return {redis.call('GET', KEYS[1]) or ''}
`,
  (reply) => reply.text(),
);

/** Points a hash to a key, unless it points to another one already; returns the key that it points to. */
export const writePointer: LuaScript<[key: string], string> = defineScript(
  /* lua */ `#!lua
-- KEYS[1] string       "account key"
-- ARGV[1] key          "account key" to point to
-- returns {"account key"}
local holder = redis.call('GET', KEYS[1]) or ARGV[1]
-- Also if it exists already, so that a repeated command can wait until replicas have it.
redis.call('SET', KEYS[1], holder)
return {holder}
`,
  (reply) => reply.text(),
);

/** Deletes the pointer of a hash, if it points to this key. */
export const dropPointer: LuaScript<[key: string], void> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- KEYS[1] string       "account key"
-- ARGV[1] key          "account key" that it must point to
-- returns {}
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return {}
`,
  () => {},
);
