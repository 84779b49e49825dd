import { defineScript, type Script } from './define-script.ts';

/** Deletes the pointer of a hash, if it points to this key. */
export const dropPointer: Script<[key: string], void> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- KEYS[1] string       "account key"
-- ARGV[1] key          "account key" that it must point to
-- returns {}
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return {}
`,
  () => {},
);
