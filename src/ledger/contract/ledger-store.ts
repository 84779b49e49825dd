import type {
  CreateKey,
  CreateKeyResult,
  FoundKey,
  KeyHashes,
  KeyRates,
  KeyRecord,
  KeyState,
  KeyStatus,
  RotateKey,
  RotateKeyResult,
  UpdateKey,
  UpdateKeyResult,
} from './key-records.ts';
import type { NanoDollars } from './money.ts';
import type { ReplyMeta, MakesAccount, DurabilityInfo, Witnessed } from './reply.ts';
import type { Ending, SettledUsage, UsageRow } from './usage.ts';

export type { Witness, Witnessed } from './reply.ts';
export type { Ending, SettledUsage, UsageRow } from './usage.ts';

/**
 * What any credit store must do: hold, post and remember money, exactly once.
 *
 * Two-phase, keyed by a request id that is made before the first call: `admit`
 * takes a hold with a lease, `extend` renews it with a checkpoint of what was
 * consumed, `settle` posts the charge, `void` gives the hold back, and a lease
 * that nobody renews ends by posting its checkpoint. Every call can be repeated
 * blindly: the same id never posts twice.
 *
 * A store throws only `StoreUnavailableError`, whose `applied` says whether the
 * command may have happened, and a TypeError for arguments that no caller
 * should have; everything else is a result with a `code`.
 * Times are milliseconds of the store's own clock. Where that is set, leases of requests that run don't end by it.
 *
 * test/contracts/ledger-store.ts is this contract as a suite.
 */
export interface LedgerStore {
  /** A failover can take back what was acknowledged, so it is remembered for a while and applied again. */
  readonly mayRollBack?: boolean;
  /** Counts the times at which another server may have taken the place of the one before. */
  readonly connectionLosses?: number;

  /** Resolves once the store can be used; rejects with an Error that says what keeps it from that. */
  ready?(): Promise<void>;

  admit(command: Admit): Promise<AdmitResult>;
  extend(command: Extend): Promise<ExtendResult>;
  settle(command: Settle): Promise<SettleResult>;
  void(command: Void): Promise<VoidResult>;

  /** Adds credits. The first grant makes the account. */
  grant(command: Grant): Promise<GrantResult>;
  /** An operator's correction, up or down; never takes what is available below the floor. */
  adjust(command: Adjust): Promise<AdjustResult>;
  /** Says whether witnesses are there. Changes nothing. */
  verify(command: Verify): Promise<VerifyResult>;
  /**
   * Ends leases that nobody renewed and forgets old request ids, at most `budget`
   * of them, and says how many; expires credits that are due, uncounted.
   */
  sweep(budget: number): Promise<number>;

  /** What became of a request; undefined when it is not known, or not any more. */
  request(account: string, requestId: string): Promise<RequestRecord | undefined>;
  /** The whole state of an account, for audits and tests; undefined when there is none. */
  snapshot(account: string): Promise<AccountState | undefined>;
  /** What people ask of an account, once due credits are expired; undefined when there is no such account. */
  balance(account: string): Promise<Balance | undefined>;
  /** Lines after `afterSeq`, oldest first, at most `limit`, which may be Infinity. */
  journal(account: string, afterSeq: bigint, limit: number): Promise<readonly JournalLine[]>;
  /** Folds lines up to and including `seq` into the checkpoint of the books, which is in `snapshot`. */
  compact(account: string, seq: bigint): Promise<void>;
  /** What was counted in these days, both inclusive, as `2026-11-21`; in no particular order. */
  usage(account: string, fromDay: string, toDay: string): Promise<readonly UsageRow[]>;
  /** Deletes the rows of earlier days; what they charged is in `snapshot`. */
  compactUsage(account: string, beforeDay: string): Promise<void>;
  /** Refuses admits while frozen; settles and voids go on. Says whether there is such an account. */
  freeze(account: string, frozen: boolean): Promise<boolean>;
  /** Ids of all accounts, in no particular order. */
  accounts(): AsyncIterable<string>;

  /** Records a key; the first key makes the account. The store never sees the key, only its SHA-256. */
  createKey(command: CreateKey): Promise<CreateKeyResult>;
  /** The key that a hash stands for: that of its newest secret, or of the one before while the two overlap. */
  findKey(hash: string): Promise<FoundKey | undefined>;
  /** How a recorded key stands at the store's now. */
  keyState(account: string, key: string): Promise<KeyStatus | undefined>;
  /** The account's recorded keys, revoked ones too; not those that its host authenticates. */
  keys(account: string): Promise<readonly KeyRecord[]>;
  updateKey(command: UpdateKey): Promise<UpdateKeyResult>;
  rotateKey(command: RotateKey): Promise<RotateKeyResult>;
  /** Says whether there was such a key; revoking twice is fine. */
  revokeKey(account: string, key: string): Promise<boolean>;
  /** What is wrong with the place that all is kept in, where a store can find that out: a sentence each. */
  damage?(): Promise<readonly string[]>;
  /** Id of each recorded key -> its hashes, for those who move an account to another store. */
  keyHashes?(account: string): Promise<ReadonlyMap<string, KeyHashes>>;

  close(): Promise<void>;
}

/** The command was refused before it could be applied, or nobody knows. */
export class StoreUnavailableError extends Error {
  override readonly name = 'StoreUnavailableError';
  /** `no`: definitely not applied. `unknown`: repeat it, or void its id. */
  readonly applied: 'no' | 'unknown';

  constructor(
    applied: 'no' | 'unknown',
    options?: ErrorOptions,
    message: string = applied === 'no'
      ? 'The credit store refused the command'
      : 'The credit store did not answer',
  ) {
    super(message, options);
    this.applied = applied;
  }
}

/**
 * An account that this process has known is not in the store any more. Nothing was changed: restore the store, or make
 * the account again with `recreate`.
 */
export class AccountLostError extends StoreUnavailableError {
  readonly code = 'account_lost';

  constructor(account: string) {
    super(
      'no',
      {},
      `account ${account} is not in the credit store any more: restore the store, or make the account again by a grant or a key with recreate: true`,
    );
  }
}

/** Takes a hold of `min` to `want`, as much as the balance and the key's budget allow. */
export interface Admit extends Witnessed {
  readonly account: string;
  /** Id of the API key, for its limits and counters. */
  readonly key: string;
  /** The key's version that the caller was judged by: a key that was changed since is refused; undefined: any. */
  readonly keyVersion?: number;
  /** Made by `RequestIds`, once a request, before the first call. */
  readonly requestId: string;
  /** What it asks for, by which it is counted should nobody end it. */
  readonly model?: string;
  readonly want: NanoDollars;
  readonly min: NanoDollars;
  readonly leaseMs: number;
  /** Tokens this request is expected to count against the key's tokens per minute. */
  readonly tokens: number;
  /** Store time after which the caller has given up: a command that arrives later changes nothing. */
  readonly notAfter: number;
  /** The host authenticated the key itself: `key` is a label and counter, made on first use. */
  readonly externalKey?: boolean;
  /**
   * Repeats a live hold that the store may have lost: takes what is available, 0 if nothing is, and is
   * refused neither for the key's state and limits, which it counts into, nor while the account is frozen.
   */
  readonly restore?: boolean;
  /** A request with the same key, of the same API key, is admitted once, until it is voided or forgotten. */
  readonly idempotencyKey?: IdempotencyKey;
}

/** What a client calls its request, and what it asked for under that name: both as SHA-256 in hex. */
export interface IdempotencyKey {
  readonly key: string;
  readonly body: string;
}

export type AdmitResult = ReplyMeta & {
  /** What is left of the key's limits per minute, where it has some and was not refused before they count. */
  readonly rates?: KeyRates;
} & (
    | { readonly code: 'ok'; readonly hold: NanoDollars; readonly available: NanoDollars }
    /** The same id holds already: a repeated call. */
    | { readonly code: 'exists'; readonly hold: NanoDollars; readonly available: NanoDollars }
    /** The same id is settled, voided or expired. */
    | { readonly code: 'done'; readonly state: FinalState }
    /** Another request has the same idempotency key: it still runs, or was charged; it was not voided. */
    | { readonly code: 'repeated'; readonly requestId: string; readonly state: RequestRecord['state'] }
    /** A witness is missing: what would have been taken may have been spent, and what was refused be there. */
    | { readonly code: 'rolled_back' }
    /** Another request has the same idempotency key, and asked for something else. */
    | { readonly code: 'key_reused'; readonly requestId: string }
    | { readonly code: 'no_funds'; readonly available: NanoDollars }
    | { readonly code: 'no_account' | 'frozen' | 'no_key' | 'revoked' | 'expired' }
    /** The key was changed since `keyVersion`: look it up again. */
    | { readonly code: 'changed' }
    | { readonly code: 'budget'; readonly left: NanoDollars }
    | { readonly code: 'concurrency' }
    | { readonly code: 'requests_per_minute' | 'tokens_per_minute'; readonly retryAfterMs: number }
    /** It came after `notAfter`, its id is below the low-water mark, or ahead of the store's clock. */
    | { readonly code: 'stale' | 'old' | 'ahead' }
  );

/** Renews a lease. All values are absolute, so that it can be repeated. */
export interface Extend extends Witnessed {
  readonly account: string;
  readonly requestId: string;
  /** What the hold shall be at least; a smaller one than the hold changes nothing. */
  readonly hold: NanoDollars;
  readonly leaseMs: number;
  /** What was consumed so far: charged if nobody comes back. Never falls, never exceeds the hold. */
  readonly checkpoint: NanoDollars;
}

export type ExtendResult = ReplyMeta &
  (
    | { readonly code: 'ok'; readonly hold: NanoDollars; readonly available: NanoDollars }
    /** The lease was renewed, but the balance or budget can't cover the larger hold. */
    | { readonly code: 'no_funds'; readonly hold: NanoDollars; readonly available: NanoDollars }
    | { readonly code: 'closed'; readonly state: FinalState }
    | { readonly code: 'unknown' }
  );

/** Posts what a request costs, whatever its hold was: more is posted down to the floor, the rest written off. */
export interface Settle extends Witnessed {
  readonly account: string;
  readonly requestId: string;
  readonly amount: NanoDollars;
  readonly key: string;
  readonly model: string;
  readonly usage: SettledUsage;
  /** Post also when the store doesn't know the id: its hold was lost, or was never taken. */
  readonly force: boolean;
  /** The request's, for a store that has lost its admission, or has given it to another request meanwhile. */
  readonly idempotencyKey?: IdempotencyKey;
  /**
   * The store has acknowledged its admission: if it neither knows the request nor may have forgotten it, the account went
   * back in time.
   */
  readonly wasAdmitted?: boolean;
  /**
   * Charge now what the balance covers, and the rest when this is repeated: nothing is written off, and nothing is charged
   * of what was written off before. It is charged so, too, where the account went back in time.
   */
  readonly inParts?: boolean;
}

export type SettleResult = ReplyMeta &
  (
    | {
        readonly code: 'ok';
        /** In all. */
        readonly charged: NanoDollars;
        readonly writtenOff: NanoDollars;
        readonly available: NanoDollars;
      }
    /** Settled before: nothing was posted now; `charged` is what was by then. */
    | {
        readonly code: 'duplicate';
        readonly charged: NanoDollars;
        /** It is less than what was asked for now, and the rest was not written off. */
        readonly isPart?: true;
      }
    | { readonly code: 'voided' }
    | { readonly code: 'unknown' | 'old' | 'no_account' }
  );

/** Gives a hold back. What is said beside the id is for the counters, by who knows that there was a hold. */
export interface Void extends Witnessed {
  readonly account: string;
  readonly requestId: string;
  /** With `model`: the request is counted also where the store has lost its hold. */
  readonly key?: string;
  readonly model?: string;
  readonly ending?: Ending;
  /** The last that was asked. */
  readonly provider?: string;
}

export type VoidResult = ReplyMeta &
  (
    | { readonly code: 'ok'; readonly released: NanoDollars; readonly available: NanoDollars }
    | { readonly code: 'duplicate' }
    | { readonly code: 'settled'; readonly charged: NanoDollars }
    /** The id was not known: it is now voided, so that an admit still on its way finds it done. */
    | { readonly code: 'planted' }
    | { readonly code: 'old' | 'no_account' }
  );

export interface Grant extends Witnessed, MakesAccount {
  readonly account: string;
  /** The grant's own id, as a payment's; the same one twice grants once. */
  readonly id: string;
  readonly amount: NanoDollars;
  /** Time at which what is left of it expires; undefined: never. */
  readonly expiresAt?: number;
  /** Lots with a smaller number burn first. 0 to 100, default 50. */
  readonly priority?: number;
}

export type GrantResult = ReplyMeta &
  (
    | ({ readonly code: 'ok' | 'duplicate'; readonly available: NanoDollars } & DurabilityInfo)
    /** The id was used before with other parameters, or for an adjustment. */
    | { readonly code: 'conflict' }
    /** The balance would pass MAX_AMOUNT, or the account has as many open lots as it may. */
    | { readonly code: 'too_big' | 'too_many_lots' }
    | { readonly code: 'no_account' }
  );

export interface Adjust extends Witnessed {
  readonly account: string;
  readonly id: string;
  /** Positive adds, negative takes. */
  readonly delta: NanoDollars;
  readonly reason: string;
}

export type AdjustResult = ReplyMeta &
  (
    | ({ readonly code: 'ok' | 'duplicate'; readonly available: NanoDollars } & DurabilityInfo)
    | { readonly code: 'conflict' | 'too_big' | 'no_account' }
    | { readonly code: 'below_floor'; readonly available: NanoDollars }
  );

export interface Verify extends Required<Witnessed> {
  readonly account: string;
}

export type VerifyResult = ReplyMeta & {
  readonly code: 'ok' | 'no_account';
  /** Which of the witnesses are missing, by their places from 0; undefined where none is. */
  readonly missing?: readonly number[];
};

export interface Balance {
  /** What can be spent now. */
  readonly available: NanoDollars;
  /** What running requests hold. */
  readonly held: NanoDollars;
  /** All that was ever charged. */
  readonly spent: NanoDollars;
  /** All that was ever granted, adjustments included. */
  readonly granted: NanoDollars;
  /** What was granted and not used in time. */
  readonly expired: NanoDollars;
  /** What was consumed beyond the floor, and is charged to nobody. */
  readonly writtenOff: NanoDollars;
  readonly frozen: boolean;
}

export type FinalState = 'settled' | 'voided' | 'expired';

/** Everything a store knows of an account. `granted = available + held + spent + expired`, always. */
export interface AccountState extends Balance {
  /** The least that `available` may become; 0 or less. */
  readonly floor: NanoDollars;
  readonly seq: bigint;
  /** Time of the newest request id that was forgotten: any unknown id at or below it is refused. */
  readonly lowWater: number;
  /** The same of requests that cost nothing, which are forgotten sooner; only they may be at or below it. */
  readonly freeLowWater: number;
  /** In no particular order. */
  readonly requests: readonly RequestRecord[];
  /** Those with something remaining, in burn order. */
  readonly lots: readonly Lot[];
  /** In no particular order, with those that the host authenticates. */
  readonly keys: readonly KeyState[];
  /** The books' part that `trim` folded away. */
  readonly compacted: {
    readonly seq: bigint;
    readonly granted: NanoDollars;
    readonly spent: NanoDollars;
    readonly expired: NanoDollars;
    readonly writtenOff: NanoDollars;
  };
  /** In no particular order. */
  readonly usage: readonly UsageRow[];
  /** The part of `spent` that no row of `usage` has: of days that were folded, or from before there were rows. */
  readonly usageCompacted: NanoDollars;
}

export interface RequestRecord {
  readonly id: string;
  readonly state: 'held' | FinalState;
  /** The hold while held, else what was charged. */
  readonly amount: NanoDollars;
  readonly key: string;
  readonly checkpoint: NanoDollars;
  /** Lease end while held, else the time it may be forgotten. */
  readonly due: number;
  readonly idempotencyKey?: IdempotencyKey;
  /** What it was admitted for, or was in the end. */
  readonly model?: string;
  /** Position of the line that it ended with, or expired with; of a charge in parts, of the first. */
  readonly line?: bigint;
  /** Of a voided one, as far as it was said. */
  readonly ending?: Ending;
  readonly provider?: string;
}

export interface Lot {
  readonly id: string;
  readonly amount: NanoDollars;
  readonly remaining: NanoDollars;
  readonly expiresAt?: number;
  readonly priority: number;
}

/**
 * A change of the books: g grant, s settle, l late settle or void (after the
 * lease expired) or, without usage, more of what was settled in part, o orphan
 * settle, e lease expiry, x credit expiry, a adjustment.
 */
export interface JournalLine {
  readonly type: 'g' | 's' | 'l' | 'o' | 'e' | 'x' | 'a';
  readonly seq: bigint;
  readonly at: number;
  /** The request's, grant's or adjustment's id. */
  readonly id: string;
  /**
   * What moved: granted, charged, expired or adjusted, with its sign. A late
   * settle has the difference to what expiry charged; so has a void after it.
   * Of a charge in parts each line has its part.
   */
  readonly amount: NanoDollars;
  /** `available` after it. */
  readonly available: NanoDollars;
  readonly hold?: NanoDollars;
  readonly writtenOff?: NanoDollars;
  readonly key?: string;
  readonly model?: string;
  readonly usage?: SettledUsage;
  readonly reason?: string;
}
