import type { NanoDollars } from './money.ts';
import type { ReplyMeta, MakesAccount, DurabilityInfo } from './reply.ts';

/** API keys as a ledger records them: never the key itself, only its SHA-256. */

/** The part of a store that keeps API keys, and what counts against limits. */
export interface KeyCommands {
  /** Records a key; the first key creates the account. The store never sees the key, only its SHA-256. */
  createKey(command: CreateKey): Promise<CreateKeyResult>;
  /** The key that has this hash: of its newest secret, or of the previous one during their overlap. */
  findKey(hash: string): Promise<FoundKey | undefined>;
  /** The current state of a recorded key, by the store's clock. */
  keyState(account: string, key: string): Promise<KeyStatus | undefined>;
  /**
   * What counts now for an end user of an account, or of one of its keys; undefined if neither limits its end users. One of
   * whom nothing was counted has counters without requests.
   */
  endUserState(account: string, endUser: string, key?: string): Promise<EndUserStatus | undefined>;
  /** The account's recorded keys, including revoked ones, without those that your app authenticates. */
  keys(account: string): Promise<readonly KeyRecord[]>;
  updateKey(command: UpdateKey): Promise<UpdateKeyResult>;
  rotateKey(command: RotateKey): Promise<RotateKeyResult>;
  /** Returns whether there is such a key. Idempotent. */
  revokeKey(account: string, key: string): Promise<boolean>;
  /** Id of each recorded key -> its hashes, for moving an account to another store. */
  keyHashes?(account: string): Promise<ReadonlyMap<string, KeyHashes>>;
}

/** The changeable terms of a key. */
export interface KeyTerms {
  readonly name: string;
  readonly limits?: KeyLimits;
  /** Limits of each end user of its requests, in place of those that the account has for them. */
  readonly endUsers?: EndUserLimits;
  /** Store time in ms from which the key is refused; undefined: never. */
  readonly expiresAt?: number;
  /** Refused until it is changed again. @default false */
  readonly paused?: boolean;
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

/**
 * Replaces all terms of a key: absent ones are removed. A limit per minute that changes starts with a full bucket.
 *
 * With ACCOUNT_POLICY as key: the terms of the account itself, which has version 0 until its first policy.
 */
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

/** Key of an account's own terms and counters in `updateKey` and `keyState`. No API key has it. */
export const ACCOUNT_POLICY = '@';

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
  readonly state: 'active' | 'paused' | 'revoked';
  readonly createdAt: number;
  readonly revokedAt?: number;
  readonly expiresAt?: number;
  readonly limits: KeyLimits;
  readonly endUsers?: EndUserLimits;
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
  /** The policy of its account; undefined while it has none. */
  readonly accountPolicy?: { readonly version: number; readonly policy?: string };
}

/** The hashes that identify a key, for moving it to another store. */
export interface KeyHashes {
  readonly current: string;
  readonly previous?: { readonly hash: string; readonly until: number };
}

/** What counts against limits, as of the last request. */
export interface Counters {
  readonly held: NanoDollars;
  readonly running: number;
  /** Total charge. */
  readonly spent: NanoDollars;
  /** The latest time at which a request was counted since the clock was set back, in ms. */
  readonly countedAt: number;
  /** The part of `spent` of the requests that were admitted in the hour, day, week and month of `countedAt`. */
  readonly spentIn: Readonly<Record<WindowPeriod, NanoDollars>>;
  /** Present where requests per minute are limited. */
  readonly requestBucket?: Bucket;
  /** Present where tokens per minute are limited; may be in debt. */
  readonly tokenBucket?: Bucket;
}

/** A key as stored. */
export interface KeyState extends KeyRecord, Counters {}

/** The counters of an end user of an account, or of one of its keys. */
export interface EndUserState extends Counters {
  /** The key whose limits of end users it counts against; undefined for the account's. */
  readonly key?: string;
  /** Empty for all beyond the maximum of end users, together. */
  readonly endUser: string;
}

export interface Bucket {
  /** Level at time `at`, in units times 60,000: a limit of n per minute refills n per ms. */
  readonly level: number;
  readonly at: number;
}

/** The current state of a key. */
export interface KeyStatus extends KeyRecord, CountersStatus {}

/** The current state of an end user. */
export interface EndUserStatus extends CountersStatus {
  /** The key whose limits of end users are in force; undefined for the account's. */
  readonly key?: string;
  readonly endUser: string;
  /** It has no counters of its own: these are of all beyond the maximum of end users, together. */
  readonly sharesEndUser?: true;
}

/** What counts against limits, now. */
export interface CountersStatus {
  /** The store's clock, in ms. */
  readonly now: number;
  readonly held: NanoDollars;
  readonly running: number;
  /** Total charge. */
  readonly spent: NanoDollars;
  /** The state of the budgets, in their order. */
  readonly budgets: readonly BudgetStatus[];
  /** The state of the limits per minute. */
  readonly rates?: KeyRates;
}

export interface BudgetStatus extends Budget {
  /** Total charge in the current window. */
  readonly spent: NanoDollars;
  /** What new requests may still hold; at least 0, also when the budget was overrun. */
  readonly left: NanoDollars;
  /** When the next window starts, in ms; undefined: never. */
  readonly resetsAt?: number;
}

/**
 * What a charge did to a budget in whose current window it counts. Each amount between `spentBefore` and `spent` was crossed
 * by this charge alone, once in a window.
 */
export interface MovedBudget extends Omit<BudgetStatus, 'left'> {
  readonly limitedBy: LimitHolder;
  /** The key whose budget it is, or whose limits of end users; undefined for the account's. */
  readonly key?: string;
  /** Of whom the budget is, if of an end user; empty for all beyond the maximum of end users, together. */
  readonly endUser?: string;
  readonly spentBefore: NanoDollars;
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
  /** At most one for each period. */
  readonly budgets?: readonly Budget[];
  readonly requestsPerMinute?: number;
  readonly tokensPerMinute?: number;
  readonly concurrentRequests?: number;
}

export interface Budget {
  readonly amount: NanoDollars;
  readonly per: BudgetPeriod;
}

/** Limits of each end user. */
export interface EndUserLimits extends KeyLimits {
  /** How many end users have counters of their own; those that come later share one. @default 10000 */
  readonly max?: number;
}

export const DEFAULT_MAX_END_USERS = 10_000;
export const MAX_END_USERS = 100_000;
/** The longest id of an end user, in UTF-16 units. */
export const MAX_END_USER_LENGTH = 128;

/** Whose limit it is. A request counts against those of all three. */
export type LimitHolder = 'key' | 'account' | 'end_user';

/** The limit that refuses a request. Of several of a kind, the one that will do so longest. */
export type ExceededLimit = { readonly limitedBy: LimitHolder } & (
  | { readonly code: 'budget'; readonly budget: Budget; readonly left: NanoDollars }
  | { readonly code: 'concurrency'; readonly limit: number }
  | {
      readonly code: 'requests_per_minute' | 'tokens_per_minute';
      readonly limit: number;
      readonly retryAfterMs: number;
    }
);

/** A period that ends and begins again, by UTC; weeks begin on Monday. */
export type WindowPeriod = 'hour' | 'day' | 'week' | 'month';
export type BudgetPeriod = WindowPeriod | 'lifetime';
export const WINDOW_PERIODS: readonly WindowPeriod[] = ['hour', 'day', 'week', 'month'];
export const BUDGET_PERIODS: readonly BudgetPeriod[] = [...WINDOW_PERIODS, 'lifetime'];

/** A limit that is a count, as all are but the budgets. */
export type CountLimit = Exclude<keyof KeyLimits, 'budgets'>;

/** The order is that in which stores keep them, and in which the Lua scripts read them. */
export const COUNT_LIMIT_NAMES: readonly CountLimit[] = [
  'requestsPerMinute',
  'tokensPerMinute',
  'concurrentRequests',
];

/** The longest name of a key, in UTF-16 units. */
export const MAX_NAME_LENGTH = 200;

/** The largest count: as a limit per minute it keeps every level of a bucket a safe integer. */
export const MAX_COUNT_LIMIT = 1_000_000_000;

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

export function sameLimits(one: EndUserLimits, other: EndUserLimits): boolean {
  const { budgets = [] } = one;
  const { budgets: others = [] } = other;
  return (
    budgets.length === others.length &&
    budgets.every(({ amount, per }, n) => amount === others[n]?.amount && per === others[n].per) &&
    COUNT_LIMIT_NAMES.every((limit) => one[limit] === other[limit]) &&
    one.max === other.max
  );
}
