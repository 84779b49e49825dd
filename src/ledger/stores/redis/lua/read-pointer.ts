import { defineScript, type Script } from './define-script.ts';

/** The key that a hash points to: "account key", or empty. */
export const readPointer: Script<[], string> = defineScript(
  /* lua */ `#!lua flags=no-writes
-- KEYS[1] string       "account key"
-- returns {its value, or empty}
return {redis.call('GET', KEYS[1]) or ''}
`,
  (reply) => reply.text(),
);
