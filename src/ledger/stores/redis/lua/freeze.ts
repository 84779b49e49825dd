import { READ_LUA } from './account-lua.ts';
import { defineScript, type LuaScript } from './define-script.ts';

/** Freezes or unfreezes an account; returns whether there is one. */
export const freeze: LuaScript<[state: 'frozen' | 'open'], boolean> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] state        frozen or open
-- returns {code}
${READ_LUA}
if redis.call('HEXISTS', TOTALS, 'av') == 0 then return {'no_account'} end
redis.call('HSET', TOTALS, 'st', ARGV[1])
return {'ok'}
`,
  (reply) => reply.text() === 'ok',
);
