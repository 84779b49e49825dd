import { type Allowance, ALLOWANCE_PERIODS, ROLLOVERS } from '../../../contract/allowances.ts';
import type { AccountState, Lot } from '../../../contract/ledger-store.ts';
import { allowanceState } from '../../../engine/account-rows.ts';
import { READ_LUA, SENTINEL } from './account-lua.ts';
import { defineScript, type LuaScript } from './define-script.ts';
import { accountHolders } from '../../../engine/key-states.ts';
import { endUserRow, keyRows } from './key-fields.ts';
import { dimensionRow, isOfDimension, requestRecord, usageRow } from './row-fields.ts';

/** The whole account at one moment, without its journal; undefined when there is no account. */
export const snapshot: LuaScript<[], ((account: string) => AccountState) | undefined> = defineScript(
  /* lua */ `#!lua flags=no-writes
-- returns {totals, requests, lots, keys, usage, end users}, each {field, value, ...}
${READ_LUA}
return {redis.call('HGETALL', TOTALS), redis.call('HGETALL', REQUESTS), redis.call('HGETALL', LOTS),
  redis.call('HGETALL', API_KEYS), redis.call('HGETALL', USAGE), redis.call('HGETALL', END_USERS)}
`,
  (reply) => {
    const totals = new Map(reply.nested().pairs());
    const requests = reply.nested().pairs();
    const lots = reply.nested().pairs();
    const keys = new Map(reply.nested().pairs());
    const usage = reply.nested().pairs();
    const endUsers = reply.nested().pairs();
    if (!totals.has('av')) return undefined;
    const amount = (field: string): bigint => BigInt(totals.get(field) ?? '');
    return (account) => ({
      granted: amount('g'),
      available: amount('av'),
      held: amount('h'),
      spent: amount('s'),
      expired: amount('x'),
      writtenOff: amount('wo'),
      floor: amount('fl'),
      lowestFloor: BigInt(totals.get('lo') ?? 0),
      allowances: allowancesIn(totals.get('al')),
      frozen: totals.get('st') === 'frozen',
      seq: amount('q'),
      lowWater: Number(totals.get('lw')),
      freeLowWater: Number(totals.get('fw') ?? 0),
      requests: requests.filter(isRequest).map(([id, row]) => requestRecord(id, row)),
      lots: lotStates(lots, totals.get('l1')),
      ...accountHolders(account, keyRows(keys), endUsers.filter(isNoSentinel).map(endUserRow)),
      compacted: {
        seq: amount('jq'),
        at: Number(totals.get('jt') ?? 0),
        granted: amount('jg'),
        spent: amount('js'),
        expired: amount('jx'),
        writtenOff: amount('jw'),
      },
      usage: usage.filter((row) => isNoSentinel(row) && !isOfDimension(row[0])).map(usageRow),
      dimensionUsage: usage.map(dimensionRow).filter((row) => row !== undefined),
      usageCompacted: compactedCharges(usage),
    });
  },
);

/** The charges of compacted usage rows. */
function compactedCharges(usage: readonly [string, string][]): bigint {
  return BigInt(usage.find(([field]) => field === SENTINEL)?.[1] ?? '0');
}

/** Not the sentinel, and not the field of an idempotency key. */
function isRequest([field]: [string, string]): boolean {
  return field !== SENTINEL && !field.includes(':');
}

function isNoSentinel([field]: [string, string]): boolean {
  return field !== SENTINEL;
}

function inBurnOrder([a]: [string, string], [b]: [string, string]): number {
  return a < b ? -1 : 1;
}

/** @param first - what the first lot in burn order has left, if it isn't -1 */
export function lotStates(lots: readonly [string, string][], first = '-1'): Lot[] {
  const states = lots.filter(isNoSentinel).sort(inBurnOrder).map(lotState);
  const [lot, ...others] = states;
  return lot && first !== '-1' ? [{ ...lot, remaining: BigInt(first) }, ...others] : states;
}

/** Parses the allowances of an account. */
export function allowancesIn(text = ''): Allowance[] {
  return text.split(';').filter(Boolean).map(allowanceIn);
}

function allowanceIn(row: string): Allowance {
  const [id = '', version, per, anchor, until, period, granted = '', amount = '', rollover, priority] =
    row.split(' ');
  const ends = Number(until);
  return allowanceState({
    id,
    version: Number(version),
    per: ALLOWANCE_PERIODS.find((each) => each === per) ?? unknownTerms(row),
    anchor: Number(anchor),
    until: ends <= Number.MAX_SAFE_INTEGER ? ends : Infinity,
    period: Number(period),
    granted: BigInt(granted),
    amount: BigInt(amount),
    rollover: ROLLOVERS.find((each) => each === rollover) ?? unknownTerms(row),
    priority: Number(priority),
  });
}

function unknownTerms(row: string): never {
  throw new TypeError(`unknown terms of an allowance: ${JSON.stringify(row)}`);
}

function lotState([member, remaining]: [string, string]): Lot {
  const [priority, expiry, id = '', amount = ''] = member.split(' ');
  const expiresAt = Number(expiry);
  return {
    id,
    amount: BigInt(amount),
    remaining: BigInt(remaining),
    ...(expiresAt <= Number.MAX_SAFE_INTEGER && { expiresAt }),
    priority: Number(priority),
  };
}
