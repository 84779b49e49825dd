import { defineScript, type Script } from './define-script.ts';

/** Points a hash to a key, unless it points to another one already; returns the key that it points to. */
export const writePointer: Script<[key: string], string> = defineScript(
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
