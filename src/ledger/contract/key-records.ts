import type { KeyLimits } from './limits.ts';
import type { NanoDollars } from './money.ts';
import type { ReplyMeta, MakesAccount, DurabilityInfo } from './reply.ts';

export type { KeyLimits };

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
