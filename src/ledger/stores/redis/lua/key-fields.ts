import {
  type CountersRow,
  endUserOfRow,
  type EndUserRow,
  type KeyRow,
} from '../../../engine/account-rows.ts';
import { newCounters, windowEnd } from '../../../engine/key-limits.ts';
import { limitsOfTerms, limitTerms } from '../../../engine/limit-terms.ts';
import { type KeyTerms, type MovedBudget, WINDOW_PERIODS } from '../../../contract/key-records.ts';
import { SENTINEL } from './account-lua.ts';

/** Parsers and formats of the fields in which scripts store API keys and end users. */

/** A key's limits, and those of its end users, as text of five words; equal limits have equal texts. */
export function keyLimitTerms({ limits = {}, endUsers }: Pick<KeyTerms, 'limits' | 'endUsers'>): string {
  const own = limitTerms(limits);
  return endUsers ? `${own}|${limitTerms(endUsers).replaceAll(' ', '|')}` : own;
}

/** A key's expiry as text, after a p while it is paused. */
export function expiryTerm({ expiresAt, paused }: Pick<KeyTerms, 'expiresAt' | 'paused'>): string {
  return `${paused ? 'p' : ''}${expiresAt ?? NONE}`;
}

/** All rows in the fields of an account's keys: also of those that your app authenticates, and the account's own. */
export function keyRows(fields: ReadonlyMap<string, string>): KeyRow[] {
  const ids = [...fields.keys()].filter((field) => field !== SENTINEL && !field.includes(':'));
  return ids.flatMap((id) => keyRow(fields, id) ?? []);
}

/** The row of a key; undefined if there is none. */
export function keyRow(fields: ReadonlyMap<string, string>, key: string): KeyRow | undefined {
  const [hash = NONE, ...rest] = fields.get(key)?.split(' ') ?? [];
  if (rest.length === 0) return undefined;
  const [created, revoked = NONE] = rest.splice(-2);
  const [own = '', ...endUsers] = rest.join(' ').split('|');
  const [version = '1', marks = NONE, previous = NONE, until] = fields.get(`${key}:v`)?.split(' ') ?? [];
  const paused = marks.startsWith('p');
  const expires = paused ? marks.slice(1) : marks;
  const name: string = JSON.parse(fields.get(`${key}:n`) ?? '""');
  const state = fields.get(`${key}:s`);
  return {
    key,
    name,
    createdAt: Number(created),
    hash: hash === NONE ? undefined : hash,
    previous: previous === NONE ? undefined : { hash: previous, until: Number(until) },
    limits: limitsOfTerms(own),
    endUsers: endUsers.length > 0 ? limitsOfTerms(endUsers.join(' ')) : undefined,
    expiresAt: expires === NONE ? undefined : Number(expires),
    policy: fields.get(`${key}:p`),
    paused,
    revokedAt: revoked === NONE ? undefined : Number(revoked),
    version: Number(version),
    ...(state === undefined ? newCounters({}, 0) : countersOf(state)),
  };
}

export function endUserRow([id, state]: readonly [id: string, state: string]): EndUserRow {
  return { id, ...countersOf(state) };
}

/** Parses what a charge did to a budget: "budget holder row period amount spent before at". */
export function movedBudget(text: string): MovedBudget {
  const [, holder, row = '', period, amount = '', spent = '', before = '', at] = text.split(' ');
  const limitedBy = holder === 'account' || holder === 'end_user' ? holder : 'key';
  const per = WINDOW_PERIODS.find((each) => each === period);
  return {
    limitedBy,
    ...(limitedBy === 'key' && { key: row }),
    ...(limitedBy === 'end_user' && endUserOfRow(row)),
    amount: BigInt(amount),
    per: per ?? 'lifetime',
    spent: BigInt(spent),
    ...(per && { resetsAt: windowEnd(per, Number(at)) }),
    spentBefore: BigInt(before),
  };
}

function countersOf(state: string): CountersRow {
  const [held = '', running, spent = '', countedAt, before = '', ...buckets] = state.split(' ');
  const [hour = 0n, day = 0n, week = 0n, month = 0n] = before.split(',').map(BigInt);
  const [requestLevel = 0, requestAt = 0, tokenLevel = 0, tokenAt = 0] = buckets.map(Number);
  return {
    held: BigInt(held),
    running: Number(running),
    spent: BigInt(spent),
    countedAt: Number(countedAt),
    spentBefore: { hour, day, week, month },
    requestBucket: { level: requestLevel, at: requestAt },
    tokenBucket: { level: tokenLevel, at: tokenAt },
  };
}

const NONE = '-';
