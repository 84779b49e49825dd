import type { SettleResult } from '../../../contract/ledger-store.ts';
import { defineScript, type LuaScript, unknownCode } from './define-script.ts';
import { movedBudget } from './key-fields.ts';
import { REQUEST_SCRIPT_LUA } from './requests-lua.ts';

/** Posts a charge, as `settle` in account-engine.ts. */
export const settle: LuaScript<
  [
    clock: string,
    requestId: string,
    amount: string,
    key: string,
    tokens: string,
    force: '0' | '1',
    details: string,
    model: string,
    usage: string,
    idempotencyKey: string,
    body: string,
    inParts: '0' | '1',
    wasAdmitted: '0' | '1',
    endUser: string,
    watchesBudgets: '0' | '1',
    ...witnesses: string[],
  ],
  SettleResult
> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] request id
-- ARGV[3] amount       nano-dollars
-- ARGV[4] key id       used if the request is unknown
-- ARGV[5] tokens       prompt and completion
-- ARGV[6] force        1 to post an unknown request
-- ARGV[7] details      recorded in the journal as they are
-- ARGV[8] model        without blanks
-- ARGV[9] usage        counts: "errors aborted prompt cached completion reasoning cost"; then " name=value" of each dimension
-- ARGV[10] idempotency key, as a hash, or empty
-- ARGV[11] body        hash of the body for that key, or empty
-- ARGV[12] in parts    1 to write off nothing
-- ARGV[13] admitted    1 if a request that is unknown, and was not deleted, was lost in a rollback
-- ARGV[14] end user    encoded, used if the request is unknown, or empty
-- ARGV[15] budgets     1 to say which the charge moved
-- ARGV[16] and on      witnesses
-- returns {code, now, seq, ...}: {charged, written off, available, held, available and held before, dimensions that share
--         a row, "budget" and each moved one} for ok, {charged, 1 if in part} for duplicate
${REQUEST_SCRIPT_LUA}
local now, id = clock(ARGV[1]), ARGV[2]
if not load_totals() then return reply(now, 'no_account') end
local request = load_request(id)
local amount = tonumber(ARGV[3])
local unspent_before = plus(totals.h, totals.av)
local is_deleted = not request and amount == 0 and may_be_deleted_free(id)
if not request and ARGV[13] == '1' and not is_deleted and request_time(id) > totals.lw then rolled_back = true end
local usage, dimensions = usage_of(ARGV[9])
local in_parts = check_witnesses(16) or ARGV[12] == '1'
if request and request.state == 'S' then
  local charged_before = request.amount
  if not in_parts or not charge_more(request, amount, now, dimensions) then
    return reply(now, 'duplicate', decimal(request.amount), is_charged_in_part(request, amount) and '1' or '0')
  end
  local result = reply(now, 'ok', decimal(request.amount), '0', decimal(totals.av), decimal(totals.h),
    decimal(unspent_before))
  if ARGV[15] == '0' then return result end
  return add_moved_budgets(result, holders_of(request), request, request.amount - charged_before)
end
if request and request.state == 'V' then return reply(now, 'voided') end
if is_deleted then return reply(now, 'duplicate', '0', '0') end
if not request and ARGV[6] == '0' then return reply(now, 'unknown') end
if not request and request_time(id) <= totals.lw then return reply(now, 'old') end

renew_due(now)
unspent_before = math.max(unspent_before, plus(totals.h, totals.av))
local kind = 'o'
if request then
  kind = request.state == 'H' and 's' or 'l'
else
  -- As if expired, with nothing charged.
  local key = load_key(ARGV[4])
  local holders, mark = holders_for(key or {}, ARGV[4], ARGV[14], now)
  -- The charge of an unknown key counts for no key, not even for one that is created later.
  if not key then
    table.remove(holders, 1)
    mark = '!' .. mark
  end
  local at = latest(holders, now)
  for _, holder in ipairs(holders) do
    enter_windows(holder, at)
    if request_time(id) > now - MINUTE then take(holder.requests, holder.rpm, 1, now) end
    holder.changed = true
  end
  request = {id = id, state = 'X', amount = 0, checkpoint = 0, due = now, mark = decimal(at) .. mark, at = at,
    in_key = key ~= nil, in_account = string.find(mark, '@', 1, true), end_user = string.match(mark, '>(.+)$'),
    tokens = 0, key = ARGV[4], hashes = '', model = ARGV[8], line = '-', ended = ''}
end
-- Its admission or hold was lost.
if ARGV[10] ~= '' and request.hashes == '' then
  local duplicate = load_duplicate(request.key, ARGV[10])
  if not (duplicate and duplicate.state == 'S') then
    request.hashes = ' ' .. ARGV[10] .. ' ' .. ARGV[11]
    -- The other request was admitted since, and may still be voided.
    if duplicate then
      duplicate.hashes = ''
      save_request(duplicate)
    end
    save_idempotency_key(request, ARGV[10])
  end
end
local hold, charged, moved, written_off = finish(request, 'S', amount, tonumber(ARGV[5]), now, ARGV[8],
  usage, dimensions, in_parts)
write_line(now, kind, id, moved, {
  hold = kind == 's' and hold or nil,
  written_off = written_off > 0 and written_off or nil,
  key = request.key,
  rest = ARGV[7],
})
update_credits(now)
local result = reply(now, 'ok', decimal(charged), decimal(written_off), decimal(totals.av), decimal(totals.h),
  decimal(unspent_before), unpack(shared_dimensions or {}))
if ARGV[15] == '0' then return result end
return add_moved_budgets(result, holders_of(request), request, moved)
`,
  (reply) => {
    const code = reply.text();
    const meta = reply.meta();
    switch (code) {
      case 'ok': {
        const charged = reply.amount();
        const writtenOff = reply.amount();
        const available = reply.amount();
        const unspent = available + reply.amount();
        const unspentBefore = reply.amount();
        const told = reply.texts();
        const budgets = told.filter((text) => text.startsWith('budget ')).map(movedBudget);
        const shared = told.slice(0, told.length - budgets.length);
        const more = {
          ...(shared.length > 0 && { sharedDimensions: shared }),
          ...(budgets.length > 0 && { budgets }),
        };
        return { code, charged, writtenOff, available, unspent, unspentBefore, ...more, ...meta };
      }
      case 'duplicate':
        return { code, charged: reply.amount(), ...(reply.text() === '1' && { isPart: true }), ...meta };
      case 'voided':
      case 'unknown':
      case 'old':
      case 'no_account':
        return { code, ...meta };
      default:
        throw unknownCode(code);
    }
  },
);
