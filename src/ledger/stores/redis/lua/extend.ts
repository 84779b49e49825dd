import type { ExtendResult } from '../../../contract/ledger-store.ts';
import { defineScript, type LuaScript, unknownCode } from './define-script.ts';
import { finalState } from './row-fields.ts';
import { REQUEST_SCRIPT_LUA } from './requests-lua.ts';

/** Renews a lease, as `extend` in account-engine.ts. */
export const extend: LuaScript<
  [
    clock: string,
    requestId: string,
    hold: string,
    leaseMs: string,
    checkpoint: string,
    ...witnesses: string[],
  ],
  ExtendResult
> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] request id
-- ARGV[3] hold         minimum, in nano-dollars
-- ARGV[4] lease        ms
-- ARGV[5] checkpoint   nano-dollars consumed so far
-- ARGV[6] and on       witnesses
-- returns {code, now, seq, ...}: {hold, available} for ok and no_funds, {state} for closed
${REQUEST_SCRIPT_LUA}
local now = clock(ARGV[1])
local request = load_totals() and load_request(ARGV[2])
check_witnesses(6)
if not request then return reply(now, 'unknown') end
if request.state ~= 'H' then return reply(now, 'closed', request.state) end

update_credits(now)
local code = 'ok'
-- By how much the hold could grow, where that is not enough.
local most
local more = tonumber(ARGV[3]) - request.amount
if more > 0 then
  local holders = holders_of(request)
  local left = least_budget(holders, now)
  if more > size(spendable()) or (left and more > left) then
    code = 'no_funds'
    most = spendable()
    if left and left < size(most) then most = left end
  else
    totals.av = plus(totals.av, 0 - more)
    totals.h = plus(totals.h, more)
    request.amount = request.amount + more
    local at = latest(holders, now)
    for _, holder in ipairs(holders) do
      enter_windows(holder, at)
      holder.held = plus(holder.held, more)
      holder.changed = true
    end
  end
end
request.checkpoint = math.min(math.max(tonumber(ARGV[5]), request.checkpoint), request.amount)
request.due = math.max(request.due, now + tonumber(ARGV[4]))
save_request(request)
return reply(now, code, decimal(request.amount), decimal(most or spendable()))
`,
  (reply) => {
    const code = reply.text();
    const meta = reply.meta();
    switch (code) {
      case 'ok':
      case 'no_funds':
        return { code, hold: reply.amount(), available: reply.amount(), ...meta };
      case 'closed':
        return { code, state: finalState(reply.text()), ...meta };
      case 'unknown':
        return { code, ...meta };
      default:
        throw unknownCode(code);
    }
  },
);
