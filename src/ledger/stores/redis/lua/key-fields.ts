import {
  type Bucket,
  type KeyHashes,
  type KeyRecord,
  type KeyState,
  BUDGET_PERIODS,
  COUNT_LIMIT_NAMES,
  countLimits,
  type KeyLimits,
} from '../../../contract/key-records.ts';
import { limitedBuckets } from '../../../engine/key-limits.ts';
import { SENTINEL } from './account-lua.ts';

/** Parsers and formats of the fields in which scripts store API keys. */

/** A key's limits as text; equal limits have equal texts. */
export function limitTerms({ budget, ...counts }: KeyLimits): string {
  const terms = [budget?.amount, budget?.per, ...COUNT_LIMIT_NAMES.map((limit) => counts[limit])];
  return terms.map((term) => term ?? NONE).join(' ');
}

/** A key's expiry as text. */
export function expiryTerm(expiresAt: number | undefined): string {
  return String(expiresAt ?? NONE);
}

/** Ids of all keys in the fields of an account's keys, including those that your app authenticates. */
export function keyIds(fields: ReadonlyMap<string, string>): string[] {
  return [...fields.keys()].filter((field) => field !== SENTINEL && !field.includes(':'));
}

/** The hashes that identify a key; undefined for one that your app authenticates. */
export function keyHashes(fields: ReadonlyMap<string, string>, key: string): KeyHashes | undefined {
  const [current] = fields.get(key)?.split(' ') ?? [];
  if (current === undefined || current === NONE) return undefined;
  const { previous, until } = marksOf(fields, key);
  return { current, ...(previous !== NONE && { previous: { hash: previous, until: Number(until) } }) };
}

export function keyRecord(account: string, fields: ReadonlyMap<string, string>, key: string): KeyRecord {
  const [, budget = NONE, per, ...rest] = fields.get(key)?.split(' ') ?? [];
  const [created, revoked = NONE] = rest.slice(COUNT_LIMIT_NAMES.length);
  const { version, expires, previous, until } = marksOf(fields, key);
  const period = BUDGET_PERIODS.find((each) => each === per);
  const name: string = JSON.parse(fields.get(`${key}:n`) ?? '""');
  const policy = fields.get(`${key}:p`);
  return {
    account,
    key,
    name,
    state: revoked === NONE ? 'active' : 'revoked',
    createdAt: Number(created),
    ...(revoked !== NONE && { revokedAt: Number(revoked) }),
    ...(expires !== NONE && { expiresAt: Number(expires) }),
    limits: {
      ...(period && { budget: { amount: BigInt(budget), per: period } }),
      ...countLimits((_, index) => countOf(rest[index])),
    },
    ...(policy !== undefined && { policy }),
    version: Number(version),
    ...(previous !== NONE && { overlapUntil: Number(until) }),
  };
}

export function keyState(account: string, fields: ReadonlyMap<string, string>, key: string): KeyState {
  const record = keyRecord(account, fields, key);
  const [held = '', running, spent = '', window, ...buckets] = fields.get(`${key}:s`)?.split(' ') ?? [];
  const [requestLevel, requestAt, tokenLevel, tokenAt] = buckets.map(Number);
  return {
    ...record,
    held: BigInt(held),
    running: Number(running),
    spent: BigInt(spent),
    window: Number(window),
    ...limitedBuckets(record.limits, {
      requestBucket: bucket(requestLevel, requestAt),
      tokenBucket: bucket(tokenLevel, tokenAt),
    }),
  };
}

/** Version, expiry and previous secret. The field is absent for a key that never changed and doesn't expire. */
function marksOf(fields: ReadonlyMap<string, string>, key: string): Marks {
  const [version = '1', expires = NONE, previous = NONE, until = NONE] =
    fields.get(`${key}:v`)?.split(' ') ?? [];
  return { version, expires, previous, until };
}

interface Marks {
  readonly version: string;
  readonly expires: string;
  readonly previous: string;
  readonly until: string;
}

const NONE = '-';

function countOf(text: string = NONE): number | undefined {
  return text === NONE ? undefined : Number(text);
}

function bucket(level = 0, at = 0): Bucket {
  return { level, at };
}
