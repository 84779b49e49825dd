import type { NanoDollars } from './money.ts';
import type { ReplyMeta, MakesAccount, DurabilityInfo } from './reply.ts';

/** API keys as a ledger records them: never the key itself, only its SHA-256. */

/** The changeable terms of a key. */
export interface KeyTerms {
  readonly name: string;
  readonly limits?: KeyLimits;
  /** Store time in ms from which the key is refused; undefined: never. */
  readonly expiresAt?: number;
  /** Opaque text of your app: 1 to 8,192 characters. */
  readonly policy?: string;
}

export interface CreateKey extends KeyTerms, MakesAccount {
  readonly account: string;
  readonly key: string;
  /** SHA-256 of the whole API key, hex. */
  readonly hash: string;
  /** Initial version, for a key that is moved from another store. @default 1 */
  readonly version?: number;
}

export type CreateKeyResult = ReplyMeta & {
  /** `no_account`: see `mustExist`. */
  readonly code: 'ok' | 'conflict' | 'no_account';
} & DurabilityInfo;

/** Replaces all terms of a key: absent ones are removed. A limit per minute that changes starts with a full bucket. */
export interface UpdateKey extends KeyTerms {
  readonly account: string;
  readonly key: string;
  /** The key's version that the new terms are based on (optimistic locking). */
  readonly version: number;
}

export type UpdateKeyResult = ReplyMeta &
  (
    | ({ readonly code: 'ok'; readonly version: number } & DurabilityInfo)
    /** The version differs: the key was modified concurrently. Nothing was changed. */
    | { readonly code: 'changed' | 'no_key' }
  );

/** Replaces the secret of a key: id, terms and counters stay. */
export interface RotateKey {
  readonly account: string;
  readonly key: string;
  /** SHA-256 of the new API key, hex. */
  readonly hash: string;
  /** The key's version that the rotation is based on (optimistic locking). */
  readonly version: number;
  /** How long the current secret stays valid, in ms; an older one that is still in its overlap ends at once. */
  readonly overlapMs: number;
}

export type RotateKeyResult = ReplyMeta &
  (
    | ({ readonly code: 'ok'; readonly version: number } & DurabilityInfo)
    /** `changed`: the version differs. `conflict`: another secret has the hash. Nothing was changed. */
    | { readonly code: 'changed' | 'conflict' | 'no_key' | 'revoked' }
  );

export interface KeyRecord {
  readonly account: string;
  readonly key: string;
  readonly name: string;
  readonly state: 'active' | 'revoked';
  readonly createdAt: number;
  readonly revokedAt?: number;
  readonly expiresAt?: number;
  readonly limits: KeyLimits;
  readonly policy?: string;
  /** Raised by each change of the key. */
  readonly version: number;
  /** When its previous secret ends, or ended, in ms. */
  readonly overlapUntil?: number;
}

/** A key that was found by a hash. */
export interface FoundKey extends KeyRecord {
  /** When the hash stops identifying the key, in ms; undefined for the newest secret. */
  readonly hashUntil?: number;
}

/** The hashes that identify a key, for moving it to another store. */
export interface KeyHashes {
  readonly current: string;
  readonly previous?: { readonly hash: string; readonly until: number };
}

/** A key as stored: its counters are as of its last request. */
export interface KeyState extends KeyRecord {
  readonly held: NanoDollars;
  readonly running: number;
  /** Total charge of the requests that were admitted in `window`. */
  readonly spent: NanoDollars;
  /** Start of the latest budget window that a request entered, in ms, UTC; 0 without one. */
  readonly window: number;
  /** Present where the key's requests per minute are limited. */
  readonly requestBucket?: Bucket;
  /** Present where its tokens per minute are limited; may be in debt. */
  readonly tokenBucket?: Bucket;
}

export interface Bucket {
  /** Level at time `at`, in units times 60,000: a limit of n per minute refills n per ms. */
  readonly level: number;
  readonly at: number;
}

/** The current state of a key. */
export interface KeyStatus extends KeyRecord {
  /** The store's clock, in ms. */
  readonly now: number;
  readonly held: NanoDollars;
  readonly running: number;
  /** Total charge in the current budget window; without a budget, in all. */
  readonly spent: NanoDollars;
  /** What new requests may still hold; at least 0, also when the budget was overrun. */
  readonly budgetLeft?: NanoDollars;
  /** When the next budget window starts, in ms; undefined: never. */
  readonly budgetResetsAt?: number;
  /** The state of its limits per minute. */
  readonly rates?: KeyRates;
}

/** The state of a key's limits per minute, without those that it doesn't have. */
export interface KeyRates {
  readonly requests?: KeyRate;
  readonly tokens?: KeyRate;
}

export interface KeyRate {
  /** Units per minute. */
  readonly limit: number;
  /** Units that fit now. */
  readonly remaining: number;
  /** Time until the bucket is full again, in ms. */
  readonly resetMs: number;
}

/** Limits of a key; what isn't given isn't limited. Checks, rows, commands and the admin API derive from the table below. */
export interface KeyLimits {
  readonly budget?: { readonly amount: NanoDollars; readonly per: BudgetPeriod };
  readonly requestsPerMinute?: number;
  readonly tokensPerMinute?: number;
  readonly concurrentRequests?: number;
}

export type BudgetPeriod = 'day' | 'week' | 'month' | 'lifetime';
export const BUDGET_PERIODS: readonly BudgetPeriod[] = ['day', 'week', 'month', 'lifetime'];

/** A limit that is a count, as all are but the budget. */
export type CountLimit = Exclude<keyof KeyLimits, 'budget'>;

/** Limit → its column. The order is that of a Redis key's record, which the Lua scripts read. */
export const COUNT_LIMITS: Readonly<Record<CountLimit, string>> = {
  requestsPerMinute: 'requests_per_minute',
  tokensPerMinute: 'tokens_per_minute',
  concurrentRequests: 'concurrent_requests',
};

/** The longest name of a key, in UTF-16 units. */
export const MAX_NAME_LENGTH = 200;

/** The largest count: as a limit per minute it keeps every level of a bucket a safe integer. */
export const MAX_COUNT_LIMIT = 1_000_000_000;

export const COUNT_LIMIT_NAMES: readonly CountLimit[] = Object.keys(COUNT_LIMITS).filter(isCountLimit);

function isCountLimit(name: string): name is CountLimit {
  return Object.hasOwn(COUNT_LIMITS, name);
}

/** A value for each count. */
export function everyCount<Value>(of: (limit: CountLimit) => Value): Readonly<Record<CountLimit, Value>> {
  return Object.fromEntries(COUNT_LIMIT_NAMES.map((limit) => [limit, of(limit)] as readonly unknown[]));
}

/** The counts that `read` finds. */
export function countLimits(
  read: (limit: CountLimit, index: number) => number | undefined,
): Pick<KeyLimits, CountLimit> {
  const counts = COUNT_LIMIT_NAMES.map((limit, index) => [limit, read(limit, index)]);
  return Object.fromEntries(counts.filter(([, count]) => count !== undefined));
}

export function sameLimits(one: KeyLimits, other: KeyLimits): boolean {
  return (
    one.budget?.amount === other.budget?.amount &&
    one.budget?.per === other.budget?.per &&
    COUNT_LIMIT_NAMES.every((limit) => one[limit] === other[limit])
  );
}
