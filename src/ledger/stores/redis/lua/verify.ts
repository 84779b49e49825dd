import type { VerifyResult } from '../../../contract/ledger-store.ts';
import { ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript, unknownCode } from './define-script.ts';

/** Checks witnesses, as `verify` in witnesses.ts. */
export const verify: LuaScript<[clock: string, ...witnesses: string[]], VerifyResult> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] and on       witnesses
-- returns {code, now, seq, ...}: for ok the indexes of the missing witnesses, from 0
${ACCOUNT_LUA}
local now = clock(ARGV[1])
if not load_totals() then return reply(now, 'no_account') end
local missing = {}
for n = 2, #ARGV do
  if not is_present(ARGV[n]) then missing[#missing + 1] = decimal(n - 2) end
end
rolled_back = #missing > 0
return reply(now, 'ok', unpack(missing))
`,
  (reply) => {
    const code = reply.text();
    if (code !== 'ok' && code !== 'no_account') throw unknownCode(code);
    const meta = reply.meta();
    const missing = reply.texts().map(Number);
    return { code, ...(missing.length > 0 && { missing }), ...meta };
  },
);
