import type { KeyLimits } from './limits.ts';
import type { NanoDollars } from './money.ts';
import type { ReplyMeta, MakesAccount, DurabilityInfo } from './reply.ts';

export type { KeyLimits };

/** What a ledger keeps of API keys: never the key, only its SHA-256. */

/** What is said of a key, all of which can be changed. */
export interface KeyTerms {
  readonly name: string;
  readonly limits?: KeyLimits;
  /** Store time from which it is refused; undefined: never. */
  readonly expiresAt?: number;
  /** A text of the host's that the ledger keeps and does not read: 1 to 8,192 characters. */
  readonly policy?: string;
}

export interface CreateKey extends KeyTerms, MakesAccount {
  readonly account: string;
  readonly key: string;
  /** SHA-256 of the whole API key, hex. */
  readonly hash: string;
  /** That it begins with, for one that comes from another store; 1 by default. */
  readonly version?: number;
}

export type CreateKeyResult = ReplyMeta & {
  /** `no_account`: see `mustExist`. */
  readonly code: 'ok' | 'conflict' | 'no_account';
} & DurabilityInfo;

/** Replaces all terms of a key: what isn't given is taken away. A limit per minute that changes begins anew, full. */
export interface UpdateKey extends KeyTerms {
  readonly account: string;
  readonly key: string;
  /** The key's version that the new terms were made from. */
  readonly version: number;
}

export type UpdateKeyResult = ReplyMeta &
  (
    | ({ readonly code: 'ok'; readonly version: number } & DurabilityInfo)
    /** Somebody else changed it since: nothing was changed now. */
    | { readonly code: 'changed' | 'no_key' }
  );

/** Gives a key another secret: id, terms and counters stay. */
export interface RotateKey {
  readonly account: string;
  readonly key: string;
  /** SHA-256 of the new API key, hex. */
  readonly hash: string;
  /** The key's version that it was decided by. */
  readonly version: number;
  /** So long the secret of now goes on working; one that was still in its own overlap ends at once. */
  readonly overlapMs: number;
}

export type RotateKeyResult = ReplyMeta &
  (
    | ({ readonly code: 'ok'; readonly version: number } & DurabilityInfo)
    /** Somebody else changed the key since; or another secret has the hash. Nothing was changed now. */
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
  /** When its previous secret ends, or ended. */
  readonly overlapUntil?: number;
}

/** A key as it was found by a hash. */
export interface FoundKey extends KeyRecord {
  /** Until when the hash stands for it; undefined for that of its newest secret. */
  readonly hashUntil?: number;
}

/** The hashes that stand for a key, for those who move it to another store. */
export interface KeyHashes {
  readonly current: string;
  readonly previous?: { readonly hash: string; readonly until: number };
}

/** A key's row as it is stored: its counters are of the time of the last request. */
export interface KeyState extends KeyRecord {
  readonly held: NanoDollars;
  readonly running: number;
  /** Charged for requests that were admitted in `window`. */
  readonly spent: NanoDollars;
  /** Start of the latest budget window that a request entered, in ms, UTC; 0 without one. */
  readonly window: number;
  /** Present where the key's requests per minute are limited. */
  readonly requestBucket?: Bucket;
  /** Present where its tokens per minute are limited; may be in debt. */
  readonly tokenBucket?: Bucket;
}

export interface Bucket {
  /** What it held at `at`, in units times 60,000; a limit of n a minute refills n a millisecond. */
  readonly level: number;
  readonly at: number;
}

/** How a key stands now. */
export interface KeyStatus extends KeyRecord {
  /** The store's clock, in ms. */
  readonly now: number;
  readonly held: NanoDollars;
  readonly running: number;
  /** Charged in the budget's window of now; ever, without a budget. */
  readonly spent: NanoDollars;
  /** What new requests may hold of the budget; 0, not less, of one that was overrun. */
  readonly budgetLeft?: NanoDollars;
  /** When the budget begins anew; undefined: never. */
  readonly budgetResetsAt?: number;
  /** How full its limits per minute are. */
  readonly rates?: KeyRates;
}

/** How much of a key's limits per minute is left; only those that it has. */
export interface KeyRates {
  readonly requests?: KeyRate;
  readonly tokens?: KeyRate;
}

export interface KeyRate {
  /** So many a minute. */
  readonly limit: number;
  /** So many fit now. */
  readonly remaining: number;
  /** In so many ms all of them fit again. */
  readonly resetMs: number;
}
