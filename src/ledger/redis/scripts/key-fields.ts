import type { Bucket, KeyLimits, KeyRecord, KeyState } from '../../ledger.ts';
import { SENTINEL } from './account-lua.ts';

/** What the fields of an account's keys say, as the scripts keep them. */

/** A key's hash and limits as one text; two keys have the same if they are limited alike. */
export function keyTerms(hash: string, limits: KeyLimits): string {
  const { budget, requestsPerMinute, tokensPerMinute, concurrentRequests } = limits;
  const terms = [budget?.amount, budget?.per, requestsPerMinute, tokensPerMinute, concurrentRequests];
  return [hash, ...terms.map((term) => term ?? NONE)].join(' ');
}

/** Ids of the keys among the fields of an account's keys. */
export function keyIds(fields: ReadonlyMap<string, string>): string[] {
  return [...fields.keys()].filter((field) => field !== SENTINEL && !field.includes(':'));
}

/** SHA-256 of the key; undefined for one that the host authenticates. */
export function keyHash(fields: ReadonlyMap<string, string>, key: string): string | undefined {
  const [hash] = fields.get(key)?.split(' ') ?? [];
  return hash === NONE ? undefined : hash;
}

export function keyRecord(account: string, fields: ReadonlyMap<string, string>, key: string): KeyRecord {
  const [, budget = NONE, per, rpm = NONE, tpm = NONE, concurrent = NONE, created, revoked = NONE] =
    fields.get(key)?.split(' ') ?? [];
  const period = PERIODS.find((each) => each === per);
  const name: string = JSON.parse(fields.get(`${key}:n`) ?? '""');
  return {
    account,
    key,
    name,
    state: revoked === NONE ? 'active' : 'revoked',
    createdAt: Number(created),
    ...(revoked !== NONE && { revokedAt: Number(revoked) }),
    limits: {
      ...(period && { budget: { amount: BigInt(budget), per: period } }),
      ...(rpm !== NONE && { requestsPerMinute: Number(rpm) }),
      ...(tpm !== NONE && { tokensPerMinute: Number(tpm) }),
      ...(concurrent !== NONE && { concurrentRequests: Number(concurrent) }),
    },
  };
}

export function keyState(account: string, fields: ReadonlyMap<string, string>, key: string): KeyState {
  const record = keyRecord(account, fields, key);
  const [held = '', running, spent = '', window, ...buckets] = fields.get(`${key}:s`)?.split(' ') ?? [];
  const [requestLevel, requestAt, tokenLevel, tokenAt] = buckets.map(Number);
  const { requestsPerMinute, tokensPerMinute } = record.limits;
  return {
    ...record,
    held: BigInt(held),
    running: Number(running),
    spent: BigInt(spent),
    window: Number(window),
    ...(requestsPerMinute !== undefined && { requestBucket: bucket(requestLevel, requestAt) }),
    ...(tokensPerMinute !== undefined && { tokenBucket: bucket(tokenLevel, tokenAt) }),
  };
}

const NONE = '-';
const PERIODS = ['day', 'week', 'month', 'lifetime'] as const;

function bucket(level = 0, at = 0): Bucket {
  return { level, at };
}
