import type { AccountChanges } from './account-changes.ts';
import type { Allowance } from './allowances.ts';
import type { CompactedSums } from './compacted-sums.ts';
import type { JournalLine } from './journal-line.ts';
import type {
  EndUserState,
  ExceededLimit,
  KeyCommands,
  KeyRates,
  KeyState,
  MovedBudget,
} from './key-records.ts';
import type { NanoDollars } from './money.ts';
import type { FleetView } from './fleet-view.ts';
import type { RequestLogStore } from './request-log.ts';
import type { RoutingStore } from './routing.ts';
import type { ReplyMeta, MakesAccount, DurabilityInfo, Witnessed } from './reply.ts';
import type { DimensionRow, Dimensions, Ending, SettledUsage, UsageRow } from './usage.ts';

export type * from './account-changes.ts';
export type * from './allowances.ts';
export type { CompactedSums } from './compacted-sums.ts';
export type * from './journal-line.ts';
export type * from './fleet-view.ts';
export type { RequestLogPage, RequestLogRow, RequestLogStore } from './request-log.ts';
export type { CostBatch, ProviderCost, RoutingChange, RoutingState, RoutingStore } from './routing.ts';
export type { Witness, Witnessed } from './reply.ts';
export type { DimensionRow, Dimensions, Ending, SettledUsage, UsageRow } from './usage.ts';

/**
 * A credit store: holds, posts and records money, exactly once.
 *
 * Two-phase, keyed by a request id that is made before the first call: `admit`
 * takes a hold with a lease, `extend` renews it with a checkpoint of what was
 * consumed, `settle` posts the charge, `void` releases the hold, and a lease
 * that isn't renewed ends by posting its checkpoint. Every call can be repeated
 * blindly: the same id never posts twice.
 *
 * A store throws only `StoreUnavailableError`, whose `applied` says whether the
 * command may have been applied, and a TypeError for invalid arguments;
 * everything else is a result with a `code`.
 * Times are in ms of the store's own clock. Setting that clock doesn't end the leases of running requests.
 *
 * `describeLedgerStore` of `chat-completions-router/testing/contracts` is this contract as a test suite.
 */
export interface LedgerStore extends AccountChanges, KeyCommands {
  /** A failover can lose acknowledged changes, so callers log and replay them. */
  readonly mayRollBack?: boolean;

  /** Of a store that was made by hand, for messages: its URL, without a password. */
  readonly name?: string;

  /**
   * Calls the listener whenever the connection may have moved to another server, as after a lost connection, before a
   * reply of that server is returned.
   */
  onConnectionLost?(listener: () => void): void;

  /** Beside the books. Without one, requests are logged in the process's memory. */
  readonly requestLog?: RequestLogStore;

  /** Beside the books. Without one, what operators change of the routing holds for their process, until it ends. */
  readonly routing?: RoutingStore;

  /** Of a store that several machines share. Without one, each process counts alone. */
  readonly fleet?: FleetView;

  /** Resolves once the store can be used; rejects with an Error that says why it can't. */
  ready?(): Promise<void>;

  // Each request needs these: a store that has the reply at once returns it without a promise, and throws its errors.
  admit(command: Admit): AdmitResult | Promise<AdmitResult>;
  extend(command: Extend): ExtendResult | Promise<ExtendResult>;
  settle(command: Settle): SettleResult | Promise<SettleResult>;
  void(command: Void): VoidResult | Promise<VoidResult>;

  /** Adds credits. The first grant creates the account. */
  grant(command: Grant): Promise<GrantResult>;
  /** Adjusts the balance up or down, for an operator; never takes `available` below the floor. */
  adjust(command: Adjust): Promise<AdjustResult>;
  /** Checks whether witnesses are present. Changes nothing. */
  verify(command: Verify): Promise<VerifyResult>;
  /**
   * Ends leases that ran out and deletes old request records, at most `budget` in
   * all, and returns how many. Also expires due credits, which don't count.
   */
  sweep(budget: number): Promise<number>;

  /** The record of a request; undefined when it is unknown, or was deleted. */
  request(account: string, requestId: string): Promise<RequestRecord | undefined>;
  /** The whole state of an account, for verification and tests; undefined when there is none. */
  snapshot(account: string): Promise<AccountState | undefined>;
  /** The balance of an account, after expiring due credits; undefined when there is no such account. */
  balance(account: string): Promise<Balance | undefined>;
  /** Journal lines after `afterSeq`, oldest first, at most `limit`, which may be Infinity. */
  journal(account: string, afterSeq: bigint, limit: number): Promise<readonly JournalLine[]>;
  /** Compacts lines up to and including `seq` into the account's checkpoint, which is `compacted` in `snapshot`. */
  compact(account: string, seq: bigint): Promise<void>;
  /** `compacted` of `snapshot`, for statements and exports, which else read the whole account. */
  compacted?(account: string): Promise<CompactedSums | undefined>;
  /** Usage rows of a range of days, both inclusive, as `2026-11-21`, of all keys or one; in no particular order. */
  usage(account: string, fromDay: string, toDay: string, key?: string): Promise<readonly UsageRow[]>;
  /** Usage rows of one dimension: `user`, `provider`, or `tag:` and a name. */
  usageBy(
    account: string,
    dimension: string,
    fromDay: string,
    toDay: string,
  ): Promise<readonly DimensionRow[]>;
  /** Deletes the rows of earlier days; their charges stay in `usageCompacted` of `snapshot`. */
  compactUsage(account: string, beforeDay: string): Promise<void>;
  /**
   * Removes the rows that nothing needs any more, and returns how many: of end users of whom nothing runs, and the windows
   * of all their budgets are over; of sessions that expired a day ago.
   */
  prune(account: string): Promise<number>;
  /** Refuses admits while frozen; settles and voids still work. Returns whether there is such an account. */
  freeze(account: string, frozen: boolean): Promise<boolean>;
  /** Ids of all accounts, in no particular order. */
  accounts(): AsyncIterable<string>;

  /** Damage of the storage itself, one sentence each, where a store can detect it. */
  damage?(): Promise<readonly string[]>;
  /** Records that a gateway uses the store, until `leaseMs` from now; 0 removes the record. */
  announceGateway?(gateway: string, leaseMs: number): Promise<void>;
  /** Gateway → ms until its lease ends, for those whose lease has not ended: a migration must wait for them. */
  liveGateways?(): Promise<ReadonlyMap<string, number>>;
  /**
   * Claims a name until `leaseMs` from now, for work that one process at a time may do. A claim that ran out is taken over
   * with its beginning, so that the work can be known again; 0 ends it. One that ends later than a new one would, by more
   * than `CLAIM_SLACK_MS`, is from before the clock was set back, and ran out.
   *
   * @returns when it was claimed first, in ms; undefined if it is claimed, or was ended
   */
  claim?(name: string, leaseMs: number): Promise<number | undefined>;

  close(): Promise<void>;
}

/** A smaller step back of the clock ends no claim. */
export const CLAIM_SLACK_MS = 60_000;

/** The store failed; `applied` says whether the command may have been applied. */
export class StoreUnavailableError extends Error {
  override readonly name = 'StoreUnavailableError';
  /** `no`: definitely not applied. `unknown`: repeat the command, or void its id. */
  readonly applied: 'no' | 'unknown';

  constructor(
    applied: 'no' | 'unknown',
    options?: ErrorOptions,
    message: string = applied === 'no'
      ? 'The credit store did not apply the command'
      : 'The credit store did not answer',
  ) {
    super(message, options);
    this.applied = applied;
  }
}

/**
 * An account that this process knows is missing from the store. Nothing was changed: restore the store, or recreate the
 * account with `recreate`.
 */
export class AccountLostError extends StoreUnavailableError {
  readonly code = 'account_lost';

  constructor(account: string) {
    super(
      'no',
      {},
      `account ${account} is missing from the credit store: restore the store, or recreate the account by a grant or a key with recreate: true`,
    );
  }
}

/** Takes a hold of `min` to `want`, as much as the balance and the key's budget allow. */
export interface Admit extends Witnessed {
  readonly account: string;
  /** Id of the API key, for its limits and counters. */
  readonly key: string;
  /** The key's version that the caller was authenticated with: any other version is refused; undefined: any. */
  readonly keyVersion?: number | undefined;
  /** The version of the account's policy that the caller was authenticated with, 0 without one; undefined: any. */
  readonly accountVersion?: number | undefined;
  /** Whom the request is for: 1 to 128 characters. It counts where the key or account limits its end users. */
  readonly endUser?: string | undefined;
  /** Made by `RequestIds`, once per request, before the first call. */
  readonly requestId: string;
  /** The requested model: the request is counted under it if its lease runs out. */
  readonly model?: string;
  readonly want: NanoDollars;
  readonly min: NanoDollars;
  readonly leaseMs: number;
  /** Expected tokens, counted against the key's tokens per minute. */
  readonly tokens: number;
  /** Store time after which the caller has given up: a command that arrives later changes nothing. */
  readonly notAfter: number;
  /** Your app authenticated the key itself: `key` is a label with counters, created on first use. */
  readonly externalKey?: boolean;
  /**
   * Re-creates the hold of a running request that a failover may have lost: takes what is available, possibly 0. It
   * counts against the key's limits, but isn't refused for them, for the key's state, or while the account is frozen.
   */
  readonly restore?: boolean;
  /** Only one request per API key and idempotency key is admitted, until that one is voided or its record deleted. */
  readonly idempotencyKey?: IdempotencyKey;
}

/** Idempotency key of a client, and the request body that it stands for: both as SHA-256 in hex. */
export interface IdempotencyKey {
  readonly key: string;
  readonly body: string;
}

export type AdmitResult = ReplyMeta & {
  /**
   * State of the limits per minute: of each kind, the one of key, account and end user that has least left. Absent
   * without any, and for a refusal before they were checked.
   */
  readonly rates?: KeyRates;
  /** The account has as many end users as it may: this one shares its counters with others. */
  readonly sharesEndUser?: true;
} &
  /** `available` is what can be spent: the balance and the credit line. */
  (
    | { readonly code: 'ok'; readonly hold: NanoDollars; readonly available: NanoDollars }
    /** The id already has a hold: a repeated call. */
    | { readonly code: 'exists'; readonly hold: NanoDollars; readonly available: NanoDollars }
    /** The same id is settled, voided or expired. */
    | { readonly code: 'done'; readonly state: FinalState }
    /** A duplicate: another request, running or charged but not voided, has the same idempotency key. */
    | { readonly code: 'repeated'; readonly requestId: string; readonly state: RequestRecord['state'] }
    /** A witness is missing: the balance and limits are not current, so the command was neither admitted nor refused. */
    | { readonly code: 'rolled_back' }
    /** Another request has the same idempotency key, with a different body. */
    | { readonly code: 'key_reused'; readonly requestId: string }
    | { readonly code: 'no_funds'; readonly available: NanoDollars }
    | { readonly code: 'no_account' | 'frozen' | 'no_key' | 'revoked' | 'paused' | 'expired' }
    /** The key or the account's policy changed since `keyVersion` or `accountVersion`: look it up again. */
    | { readonly code: 'changed' }
    | ExceededLimit
    /** It arrived after `notAfter`; its id is below the low-water mark; its id is ahead of the store's clock. */
    | { readonly code: 'stale' | 'old' | 'ahead' }
  );

/** Renews a lease. All values are absolute, so the command can be repeated. */
export interface Extend extends Witnessed {
  readonly account: string;
  readonly requestId: string;
  /** Minimum for the hold; a smaller value than the current hold changes nothing. */
  readonly hold: NanoDollars;
  readonly leaseMs: number;
  /** What was consumed so far: charged if the lease runs out. Never decreases, never exceeds the hold. */
  readonly checkpoint: NanoDollars;
}

export type ExtendResult = ReplyMeta &
  /** `available` is what can be spent: the balance and the credit line. */
  (
    | { readonly code: 'ok'; readonly hold: NanoDollars; readonly available: NanoDollars }
    /**
     * The lease was renewed, but the balance or a budget can't cover the larger hold. `available` is by how much it
     * could grow: what can be spent, or what the tightest budget has left, if that is less; negative if overrun.
     */
    | { readonly code: 'no_funds'; readonly hold: NanoDollars; readonly available: NanoDollars }
    | { readonly code: 'closed'; readonly state: FinalState }
    | { readonly code: 'unknown' }
  );

/** Posts the charge of a request, also beyond its hold: down to the floor, the rest is written off. */
export interface Settle extends Witnessed {
  readonly account: string;
  readonly requestId: string;
  readonly amount: NanoDollars;
  readonly key: string;
  readonly model: string;
  readonly usage: SettledUsage;
  /** Whom the request was for, if the store doesn't know it. */
  readonly endUser?: string | undefined;
  /** For the journal and the usage rows. */
  readonly dimensions?: Dimensions | undefined;
  /** Post also when the id is unknown: its hold was lost, or was never taken. */
  readonly force: boolean;
  /** The request's idempotency key, for a store that lost its admission, or has given the key to another request since. */
  readonly idempotencyKey?: IdempotencyKey;
  /**
   * The store acknowledged the admission: if it doesn't know the request, and can't have deleted it, the account was
   * rolled back.
   */
  readonly wasAdmitted?: boolean;
  /**
   * Charge what the balance covers now, and the rest when the command is repeated. Nothing is written off, and what was
   * written off before is not charged. Also in effect where the account was rolled back.
   */
  readonly inParts?: boolean;
  /** The reply is to say which budgets the charge moved. */
  readonly watchesBudgets?: boolean;
}

export type SettleResult = ReplyMeta &
  (
    | {
        readonly code: 'ok';
        /** Total charge of the request. */
        readonly charged: NanoDollars;
        readonly writtenOff: NanoDollars;
        readonly available: NanoDollars;
        /**
         * `available` and `held` together, after the command and before its charge, with an allowance that it renewed: each
         * amount between them was crossed by this command alone.
         */
        readonly unspent: NanoDollars;
        readonly unspentBefore: NanoDollars;
        /** If the command asks for them, and there are any. */
        readonly budgets?: readonly MovedBudget[];
        /** Dimensions whose value shares its usage row with others, because the day has as many as it may. */
        readonly sharedDimensions?: readonly string[];
      }
    /** Settled before: nothing was posted now. `charged` is the total charge. */
    | {
        readonly code: 'duplicate';
        readonly charged: NanoDollars;
        /** `charged` is less than the amount of this command, and the rest was not written off. */
        readonly isPart?: true;
        /** Only from a ReliableStore that lost an answer and sent the command again: what the first one wrote off. */
        readonly writtenOff?: NanoDollars;
      }
    | { readonly code: 'voided' }
    | { readonly code: 'unknown' | 'old' | 'no_account' }
  );

/** Releases a hold. The optional members are for the usage counters: only the caller knows them if the hold was lost. */
export interface Void extends Witnessed {
  readonly account: string;
  readonly requestId: string;
  /** Together with `model`: count the request even if the store has lost its hold. */
  readonly key?: string;
  readonly model?: string;
  readonly dimensions?: Dimensions | undefined;
  readonly ending?: Ending;
  /** The last provider that was called. */
  readonly provider?: string;
}

export type VoidResult = ReplyMeta &
  (
    | { readonly code: 'ok'; readonly released: NanoDollars; readonly available: NanoDollars }
    | { readonly code: 'duplicate' }
    | { readonly code: 'settled'; readonly charged: NanoDollars }
    /** The id was unknown and is now voided (a tombstone), so that an admit that arrives later is refused. */
    | { readonly code: 'planted' }
    | { readonly code: 'old' | 'no_account' }
  );

export interface Grant extends Witnessed, MakesAccount {
  readonly account: string;
  /** Id of the grant, such as a payment's: repeated with the same id, it grants once. */
  readonly id: string;
  readonly amount: NanoDollars;
  /** When the unused rest expires, in ms; undefined: never. */
  readonly expiresAt?: number;
  /** Lots with a smaller number burn first. 0 to 100, default 50. */
  readonly priority?: number;
  /** The lot comes from another store, so its id may be one of an allowance. */
  readonly isMoved?: boolean;
}

export type GrantResult = ReplyMeta &
  (
    | ({ readonly code: 'ok' | 'duplicate'; readonly available: NanoDollars } & DurabilityInfo)
    /** The id was used before with other parameters, or for an adjustment. */
    | { readonly code: 'conflict' }
    /** The balance would exceed MAX_AMOUNT, or the account has the maximum number of open lots. */
    | { readonly code: 'too_big' | 'too_many_lots' }
    | { readonly code: 'no_account' }
  );

export interface Adjust extends Witnessed {
  readonly account: string;
  readonly id: string;
  /** Positive adds, negative takes. */
  readonly delta: NanoDollars;
  readonly reason: string;
  /** Also below the floor, as after a chargeback. The account is frozen. */
  readonly force?: boolean;
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
  /** Indexes of the missing witnesses, from 0; undefined if none is missing. */
  readonly missing?: readonly number[];
};

export interface Balance {
  /** What was granted and not used; negative where a credit line is in use. */
  readonly available: NanoDollars;
  /** Sum of the holds of running requests. */
  readonly held: NanoDollars;
  /** Total of all charges. */
  readonly spent: NanoDollars;
  /** Total of all grants and adjustments. */
  readonly granted: NanoDollars;
  /** Grants that expired unused. */
  readonly expired: NanoDollars;
  /** What was consumed beyond the floor, and not charged. */
  readonly writtenOff: NanoDollars;
  /** Minimum of `available`; 0 or less. */
  readonly floor: NanoDollars;
  readonly frozen: boolean;
  /** Position of the last journal line; 0 without one. */
  readonly seq: bigint;
  /** Lots with something remaining, in burn order. */
  readonly lots: readonly Lot[];
  /** By id. */
  readonly allowances: readonly Allowance[];
}

export type FinalState = 'settled' | 'voided' | 'expired';

/** Everything a store knows of an account. `granted = available + held + spent + expired`, always. */
export interface AccountState extends Balance {
  /** The lowest floor that there was, or the lowest `available` after a forced adjustment. */
  readonly lowestFloor: NanoDollars;
  /** Time of the newest request id whose record was deleted: any unknown id at or below it is refused, unless the clock was set back to before it. */
  readonly lowWater: number;
  /** The same for requests that cost nothing, whose records are deleted sooner; only they may be at or below it. */
  readonly freeLowWater: number;
  /** In no particular order. */
  readonly requests: readonly RequestRecord[];
  /** In no particular order, including those that your app authenticates. */
  readonly keys: readonly KeyState[];
  /** The account's own terms and counters; undefined while it has no policy. */
  readonly policy?: KeyState;
  /** In no particular order. */
  readonly endUsers: readonly EndUserState[];
  readonly compacted: CompactedSums;
  /** In no particular order. */
  readonly usage: readonly UsageRow[];
  /** The part of `spent` that is in no row of `usage`: that of compacted days. */
  readonly usageCompacted: NanoDollars;
  /** In no particular order. */
  readonly dimensionUsage: readonly DimensionRow[];
}

export interface RequestRecord {
  readonly id: string;
  readonly state: 'held' | FinalState;
  /** The hold while held, else the charge. */
  readonly amount: NanoDollars;
  readonly key: string;
  /** It counts against the limits of the account. */
  readonly inAccount?: true;
  /** The end user whose limits it counts against, if any. */
  readonly endUser?: Pick<EndUserState, 'key' | 'endUser'>;
  readonly checkpoint: NanoDollars;
  /** End of the lease while held, else when the record may be deleted; in ms. */
  readonly due: number;
  readonly idempotencyKey?: IdempotencyKey;
  /** The requested model, or the model that answered once settled. */
  readonly model?: string;
  /** Position of the journal line of its end or expiry; of a charge in parts, of the first part. */
  readonly line?: bigint;
  /** How a voided request ended, if known. */
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
