import type { Balance } from '../../../contract/ledger-store.ts';
import { ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript, type ReplyReader } from './define-script.ts';
import { LOTS_LUA } from './lots-lua.ts';
import { allowancesIn, lotStates } from './snapshot.ts';

/** The balance of an account, after expiring due credits. */
export const balance: LuaScript<[clock: string], Balance | undefined> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own
-- returns {code, now, seq, ...}: {available, held, spent, granted, expired, written off, floor, state, allowances, rest
--   of the first lot, {lot, rest, ...}} for ok
${ACCOUNT_LUA}${LOTS_LUA}
local now = clock(ARGV[1])
if not load_totals() then return reply(now, 'no_account') end
update_credits(now)
local result = reply(now, 'ok', decimal(totals.av), decimal(totals.h), decimal(totals.s), decimal(totals.g),
  decimal(totals.x), decimal(totals.wo), decimal(totals.fl), totals.st)
result[#result + 1] = redis.call('HGET', TOTALS, 'al') or ''
result[#result + 1] = decimal(totals.l1)
result[#result + 1] = redis.call('HGETALL', LOTS)
return result
`,
  (reply) => {
    if (reply.text() !== 'ok') return undefined;
    const { seq } = reply.meta();
    return {
      seq,
      available: reply.amount(),
      held: reply.amount(),
      spent: reply.amount(),
      granted: reply.amount(),
      expired: reply.amount(),
      writtenOff: reply.amount(),
      floor: reply.amount(),
      frozen: reply.text() === 'frozen',
      allowances: allowancesIn(reply.text()),
      ...lotsIn(reply),
    };
  },
);

function lotsIn(reply: ReplyReader): Pick<Balance, 'lots'> {
  const first = reply.text();
  return { lots: lotStates(reply.nested().pairs(), first) };
}
