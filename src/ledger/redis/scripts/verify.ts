import type { VerifyResult } from '../../ledger.ts';
import { BOOKS_LUA } from './account-lua.ts';
import { defineScript, type Script, unexpected } from './define-script.ts';

/** Looks for witnesses, as `verify` in witnesses.ts. */
export const verify: Script<[clock: string, ...witnesses: string[]], VerifyResult> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] and on       witnesses
-- returns {code, now, seq}
${BOOKS_LUA}
local now = clock(ARGV[1])
if not load_books() then return reply(now, 'no_account') end
look_for_witnesses(2)
return reply(now, 'ok')
`,
  (reply) => {
    const code = reply.text();
    if (code !== 'ok' && code !== 'no_account') throw unexpected(code);
    return { code, ...reply.at() };
  },
);
