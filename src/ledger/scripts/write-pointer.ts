import { defineScript, type Script } from './define-script.ts';

/** Says which key has a hash, unless another has it already; returns which it is. */
export const writePointer: Script<[key: string], string> = defineScript(
  /* lua */ `#!lua
-- KEYS[1] string       "account key"
-- ARGV[1] key          what it shall be
-- returns {what it is}
redis.call('SETNX', KEYS[1], ARGV[1])
return {redis.call('GET', KEYS[1])}
`,
  (reply) => reply.text(),
);
