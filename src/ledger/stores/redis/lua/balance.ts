import type { Balance } from '../../../contract/ledger-store.ts';
import { ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript } from './define-script.ts';
import { LOTS_LUA } from './lots-lua.ts';

/** The balance of an account, after expiring due credits. */
export const balance: LuaScript<[clock: string], Balance | undefined> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own
-- returns {code, now, seq, ...}: {available, held, spent, granted, expired, written off, state} for ok
${ACCOUNT_LUA}${LOTS_LUA}
local now = clock(ARGV[1])
if not load_totals() then return reply(now, 'no_account') end
expire_lots(now)
return reply(now, 'ok', decimal(totals.av), decimal(totals.h), decimal(totals.s), decimal(totals.g), decimal(totals.x), decimal(totals.wo),
  totals.st)
`,
  (reply) => {
    if (reply.text() !== 'ok') return undefined;
    reply.meta();
    return {
      available: reply.amount(),
      held: reply.amount(),
      spent: reply.amount(),
      granted: reply.amount(),
      expired: reply.amount(),
      writtenOff: reply.amount(),
      frozen: reply.text() === 'frozen',
    };
  },
);
