import {
  type BudgetPeriod,
  type KeyRate,
  type LimitHolder,
  WINDOW_PERIODS,
} from '../../../contract/key-records.ts';
import type { AdmitResult } from '../../../contract/ledger-store.ts';
import { defineScript, type ReplyReader, type LuaScript, unknownCode } from './define-script.ts';
import { finalState, requestState } from './row-fields.ts';
import { REQUEST_SCRIPT_LUA } from './requests-lua.ts';

/** Takes a hold, as `admit` in account-engine.ts. */
export const admit: LuaScript<
  [
    clock: string,
    requestId: string,
    key: string,
    want: string,
    min: string,
    leaseMs: string,
    tokens: string,
    notAfter: string,
    externalKey: '0' | '1',
    restore: '0' | '1',
    idempotencyKey: string,
    body: string,
    keyVersion: string,
    accountVersion: string,
    model: string,
    endUser: string,
    ...witnesses: string[],
  ],
  AdmitResult
> = defineScript(
  /* lua */ `#!lua
-- ARGV[1] clock        ms, or empty for Redis's own; then <, and the horizon of leases in ms, or nothing
-- ARGV[2] request id
-- ARGV[3] key id
-- ARGV[4] want         nano-dollars
-- ARGV[5] min          nano-dollars
-- ARGV[6] lease        ms
-- ARGV[7] tokens       counted against the key's tokens per minute
-- ARGV[8] not after    ms
-- ARGV[9] external     1 if the app authenticated the key
-- ARGV[10] restore     1 to re-create a hold that may be lost
-- ARGV[11] idempotency key, as a hash, or empty
-- ARGV[12] body        hash of the body for that key, or empty
-- ARGV[13] key version that the caller was authenticated with, or empty
-- ARGV[14] version of the account's policy that the caller was authenticated with, or empty
-- ARGV[15] model       without blanks, or empty
-- ARGV[16] end user    encoded, or empty
-- ARGV[17] and on      witnesses
-- returns {code, now, seq, ...}: {hold, available} for ok and exists, {state} for done, {available} for no_funds,
--   {request id, state} for repeated, {request id} for key_reused,
--   {holder, left, amount, period} for budget, {holder, limit} for concurrency, {holder, limit, ms to wait} for
--   requests_per_minute and tokens_per_minute. Last, where there are limits per minute, their rates: for ok, exists, and
--   every refusal after the checks of account and key; for ok with a + if the end user shares its counters
${REQUEST_SCRIPT_LUA}
local now, id, key_id = clock(ARGV[1]), ARGV[2], ARGV[3]
local want, min, tokens = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[7])
local restore = ARGV[10] == '1'

local known = load_totals() and load_request(id)
if check_witnesses(17) then return reply(now, 'rolled_back') end
if known then
  if known.state ~= 'H' then return reply(now, 'done', known.state) end
  return reply(now, 'exists', decimal(known.amount), decimal(spendable()), rates(holders_of(known), now))
end
if now > tonumber(ARGV[8]) then return reply(now, 'stale') end
if request_time(id) > now + 300000 then return reply(now, 'ahead') end
if not totals then return reply(now, 'no_account') end
-- As isTooOld in retention.ts.
if request_time(id) <= totals.lw and totals.lw <= now then return reply(now, 'old') end
if totals.st == 'frozen' and not restore then return reply(now, 'frozen') end

reap(8, now)
update_credits(now)

local key = load_key(key_id)
local is_new = not key
if ARGV[9] == '0' and not restore then
  if not key or not key.recorded then return reply(now, 'no_key') end
  if key.revoked then return reply(now, 'revoked') end
  if key.expires == PAUSED then return reply(now, 'paused') end
  if key.expires and now >= key.expires then return reply(now, 'expired') end
  if ARGV[13] ~= '' and ARGV[13] ~= key.version then return reply(now, 'changed') end
end
if ARGV[14] ~= '' and tonumber(ARGV[14]) ~= totals.pv and not restore then return reply(now, 'changed') end
key = key or new_key(key_id, nil, nil, now)
local holders, mark, shares = holders_for(key, key_id, ARGV[16], now)
local hashes = ''
if ARGV[11] ~= '' then
  local duplicate, body = load_duplicate(key_id, ARGV[11])
  if duplicate and not restore then
    if body ~= ARGV[12] then return reply(now, 'key_reused', duplicate.id, rates(holders, now)) end
    return reply(now, 'repeated', duplicate.id, duplicate.state, rates(holders, now))
  end
  if not duplicate then hashes = ' ' .. ARGV[11] .. ' ' .. ARGV[12] end
end

local left
if not restore then
  for n = 1, #holders do
    local holder = holders[n]
    if holder.concurrent and holder.running >= holder.concurrent then
      return reply(now, 'concurrency', holder.kind or 'key', decimal(holder.concurrent), rates(holders, now))
    end
  end
  local by, wait = longest_wait(holders, 'rpm', 'requests', 1, now)
  if by then
    return reply(now, 'requests_per_minute', by.kind or 'key', decimal(by.rpm), decimal(wait), rates(holders, now))
  end
  by, wait = longest_wait(holders, 'tpm', 'tokens', tokens, now)
  if by then
    return reply(now, 'tokens_per_minute', by.kind or 'key', decimal(by.tpm), decimal(wait), rates(holders, now))
  end
  local holder, budget
  left, holder, budget = least_budget(holders, now)
  if left and want > 0 and (left <= 0 or left < min) then
    return reply(now, 'budget', holder.kind or 'key', decimal(math.max(0, left)), decimal(budget.amount), budget.per,
      rates(holders, now))
  end
end

local affordable = math.min(size(spendable()), left or want)
local hold = math.max(0, math.min(want, affordable))
if not restore and (hold < min or (hold == 0 and want > 0)) then
  return reply(now, 'no_funds', decimal(spendable()), rates(holders, now))
end

totals.av = plus(totals.av, 0 - hold)
totals.h = plus(totals.h, hold)
local at = latest(holders, now)
for n = 1, #holders do
  local holder = holders[n]
  enter_windows(holder, at)
  take(holder.requests, holder.rpm, 1, now)
  take(holder.tokens, holder.tpm, tokens, now)
  holder.held = plus(holder.held, hold)
  holder.running = holder.running + 1
  holder.changed = true
end
local request = {id = id, state = 'H', amount = hold, checkpoint = 0, due = now + tonumber(ARGV[6]),
  mark = decimal(at) .. mark, tokens = tokens, key = key_id, hashes = hashes, model = ARGV[15], line = '-', ended = ''}
save_request(request)
if hashes ~= '' then save_idempotency_key(request, ARGV[11]) end
if is_new then
  redis.call('HSET', API_KEYS, key_id, '- - - - - - ' .. decimal(now) .. ' -', key_id .. ':n', '""')
end
local told = rates(holders, now)
if shares then told = (told or '') .. '+' end
return reply(now, 'ok', decimal(hold), decimal(spendable()), told)
`,
  (reply) => {
    const code = reply.text();
    const meta = reply.meta();
    switch (code) {
      case 'ok':
      case 'exists':
        return { code, hold: reply.amount(), available: reply.amount(), ...ratesIn(reply), ...meta };
      case 'done':
        return { code, state: finalState(reply.text()), ...meta };
      case 'repeated': {
        const [requestId, state] = [reply.text(), requestState(reply.text())];
        return { code, requestId, state, ...ratesIn(reply), ...meta };
      }
      case 'key_reused':
        return { code, requestId: reply.text(), ...ratesIn(reply), ...meta };
      case 'no_funds':
        return { code, available: reply.amount(), ...ratesIn(reply), ...meta };
      case 'budget': {
        const [limitedBy, left] = [holderIn(reply), reply.amount()];
        const budget = { amount: reply.amount(), per: periodIn(reply) };
        return { code, limitedBy, left, budget, ...ratesIn(reply), ...meta };
      }
      case 'requests_per_minute':
      case 'tokens_per_minute': {
        const limited = { limitedBy: holderIn(reply), limit: reply.count(), retryAfterMs: reply.count() };
        return { code, ...limited, ...ratesIn(reply), ...meta };
      }
      case 'concurrency':
        return { code, limitedBy: holderIn(reply), limit: reply.count(), ...ratesIn(reply), ...meta };
      case 'rolled_back':
      case 'no_account':
      case 'frozen':
      case 'no_key':
      case 'revoked':
      case 'paused':
      case 'expired':
      case 'changed':
      case 'stale':
      case 'old':
      case 'ahead':
        return { code, ...meta };
      default:
        throw unknownCode(code);
    }
  },
);

function holderIn(reply: ReplyReader): LimitHolder {
  const text = reply.text();
  return text === 'account' || text === 'end_user' ? text : 'key';
}

function periodIn(reply: ReplyReader): BudgetPeriod {
  const text = reply.text();
  return WINDOW_PERIODS.find((per) => per === text) ?? 'lifetime';
}

/** The state of the limits per minute, if the reply has it, and whether the end user shares its counters. */
function ratesIn(reply: ReplyReader): Pick<AdmitResult, 'rates' | 'sharesEndUser'> | undefined {
  const [text] = reply.texts();
  if (text === undefined) return undefined;
  const shares = text.endsWith('+') && { sharesEndUser: true as const };
  if (text === '+') return { ...shares };
  const numbers = text.replace('+', '').split(' ').map(Number);
  const requests = rateOf(numbers.slice(0, 3));
  const tokens = rateOf(numbers.slice(3));
  return { rates: { ...(requests && { requests }), ...(tokens && { tokens }) }, ...shares };
}

function rateOf([limit = NaN, remaining = NaN, resetMs = NaN]: readonly number[]): KeyRate | undefined {
  return Number.isNaN(limit) ? undefined : { limit, remaining, resetMs };
}
