import { defineScript, type Script } from './define-script.ts';

/** Says which key has a hash, unless another has it already; returns which it is. */
export const writePointer: Script<[key: string], string> = defineScript(
  /* lua */ `#!lua
-- KEYS[1] string       "account key"
-- ARGV[1] key          what it shall be
-- returns {what it is}
local holder = redis.call('GET', KEYS[1]) or ARGV[1]
-- Also what is there already, so that who repeats it can wait until replicas have it.
redis.call('SET', KEYS[1], holder)
return {holder}
`,
  (reply) => reply.text(),
);
