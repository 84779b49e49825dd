import type { VoidResult } from '../../../contract/ledger-store.ts';
import { defineScript, type LuaScript, unknownCode } from './define-script.ts';
import { REQUEST_SCRIPT_LUA } from './requests-lua.ts';

/** Releases a hold, or refunds the charge of an expiry, as `release` in account-engine.ts. */
export const release: LuaScript<
  [
    clock: string,
    requestId: string,
    key: string,
    model: string,
    ended: string,
    usage: string,
    ...witnesses: string[],
  ],
  VoidResult
> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] request id
-- ARGV[3] key id       used if the request is unknown, or empty
-- ARGV[4] model        without blanks, - if unknown
-- ARGV[5] ended        "ending provider", each - if unknown
-- ARGV[6] usage        counts: "errors aborted 0 0 0 0 0"; then " name=value" of each dimension
-- ARGV[7] and on       witnesses
-- returns {code, now, seq, ...}: {released, available} for ok, {charged} for settled
${REQUEST_SCRIPT_LUA}
local now, id = clock(ARGV[1]), ARGV[2]
if not load_totals() then return reply(now, 'no_account') end
check_witnesses(7)
local request = load_request(id)
if not request then
  if may_be_deleted_free(id) then return reply(now, 'old') end
  local has_model = ARGV[4] ~= '-'
  request = {id = id, state = 'V', amount = 0, checkpoint = 0, due = delete_at(id, now, true), mark = '0!', tokens = 0,
    key = ARGV[3], hashes = '', model = has_model and ARGV[4] or '', line = '-', ended = ' ' .. ARGV[5]}
  save_request(request)
  -- If the key and model are given, there was a hold.
  if ARGV[3] ~= '' and has_model then count_usage(request, request.model, usage_of(ARGV[6])) end
  return reply(now, 'planted')
end
if request.state == 'S' then return reply(now, 'settled', decimal(request.amount)) end
if request.state == 'V' then return reply(now, 'duplicate') end

request.ended = ' ' .. ARGV[5]
local model = ARGV[4] ~= '-' and ARGV[4] or request.model
local hold, _, moved = finish(request, 'V', 0, 0, now, model, usage_of(ARGV[6]))
if moved ~= 0 then write_line(now, 'l', id, moved, {key = request.key}) end
update_credits(now)
return reply(now, 'ok', decimal(hold - moved), decimal(totals.av))
`,
  (reply) => {
    const code = reply.text();
    const meta = reply.meta();
    switch (code) {
      case 'ok':
        return { code, released: reply.amount(), available: reply.amount(), ...meta };
      case 'settled':
        return { code, charged: reply.amount(), ...meta };
      case 'duplicate':
      case 'planted':
      case 'old':
      case 'no_account':
        return { code, ...meta };
      default:
        throw unknownCode(code);
    }
  },
);
