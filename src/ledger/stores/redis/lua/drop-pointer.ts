import { defineScript, type Script } from './define-script.ts';

/** Forgets which key has a hash, if it is this one. */
export const dropPointer: Script<[key: string], void> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- KEYS[1] string       "account key"
-- ARGV[1] key          whose it was
-- returns {}
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return {}
`,
  () => {},
);
