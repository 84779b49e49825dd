import type { VerifyResult } from '../../../contract/ledger-store.ts';
import { BOOKS_LUA } from './account-lua.ts';
import { defineScript, type Script, unexpected } from './define-script.ts';

/** Looks for witnesses, as `verify` in witnesses.ts. */
export const verify: Script<[clock: string, ...witnesses: string[]], VerifyResult> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] and on       witnesses
-- returns {code, now, seq, ...}: for ok the places of those that are missing, from 0
${BOOKS_LUA}
local now = clock(ARGV[1])
if not load_books() then return reply(now, 'no_account') end
local missing = {}
for n = 2, #ARGV do
  if not is_there(ARGV[n]) then missing[#missing + 1] = text(n - 2) end
end
rolled_back = #missing > 0
return reply(now, 'ok', unpack(missing))
`,
  (reply) => {
    const code = reply.text();
    if (code !== 'ok' && code !== 'no_account') throw unexpected(code);
    const at = reply.at();
    const missing = reply.texts().map(Number);
    return { code, ...(missing.length > 0 && { missing }), ...at };
  },
);
