import { randomUUID } from 'node:crypto';

import type { DeletedAccount } from '../contract/account-changes.ts';
import type {
  DimensionRow,
  Lot,
  Balance,
  Ending,
  FinalState,
  IdempotencyKey,
  JournalLine,
  RequestRecord,
  UsageRow,
} from '../contract/ledger-store.ts';
import type { Allowance, AllowancePeriod, Rollover } from '../contract/allowances.ts';
import type { EndUserLimits, KeyLimits, WindowPeriod } from '../contract/key-records.ts';
import type { NanoDollars } from '../contract/money.ts';
import { laterPeriod } from './periods.ts';

/**
 * Storage of one account's rows: maps, or tables inside a transaction.
 *
 * The transitions in account-engine.ts and lots.ts change rows in place and then
 * save them; `totals` is changed in place, and the store saves it after each command.
 */
export interface AccountRows {
  readonly totals: AccountTotals;

  request(id: string): RequestRow | undefined;
  /** The request, not voided, that was admitted for this API key with this idempotency key. */
  requestByIdempotencyKey(apiKey: string, key: string): RequestRow | undefined;
  /** Removes the idempotency key from a request, so that another one can have it. */
  freeIdempotencyKey(row: RequestRow): void;
  /** The row with the earliest `due`, if that is at or before `now`; ties are ordered by id. */
  firstDue(now: number): RequestRow | undefined;
  saveRequest(row: RequestRow): void;
  deleteRequest(row: RequestRow): void;

  /** A key, or the account's own row: ACCOUNT_POLICY. */
  key(id: string): KeyRow | undefined;
  /** Saves the counters of a key; all members of a new key. */
  saveKey(row: KeyRow): void;
  /** Saves all members of a key. */
  saveKeyTerms(row: KeyRow): void;
  deleteKey(row: KeyRow): void;

  /** An end user, by the id of its row. */
  endUser(id: string): EndUserRow | undefined;
  /** How many end users have rows. */
  endUserCount(): number;
  saveEndUser(row: EndUserRow): void;
  deleteEndUser(row: EndUserRow): void;

  /** Lots with something remaining, in burn order. Saving a lot doesn't change a list that was returned before. */
  openLots(): readonly LotRow[];
  saveLot(row: LotRow): void;

  /** By id. A list that was returned before doesn't change. */
  allowances(): readonly AllowanceRow[];
  saveAllowance(row: AllowanceRow): void;
  deleteAllowance(row: AllowanceRow): void;

  /** The parameters with which an id of a grant or adjustment was first used. */
  fingerprint(id: string): string | undefined;
  saveFingerprint(id: string, fingerprint: string): void;

  append(line: JournalLine): void;
  /** The line at this position; undefined once it is compacted. */
  line(seq: bigint): JournalLine | undefined;

  /** Adds to the row of its day, key and model. Negative counts undo earlier ones. */
  count(usage: UsageRow): void;
  readonly dimensions: DimensionRows;
}

/** Usage rows by day, dimension and value. */
export interface DimensionRows {
  has(day: string, dimension: string, value: string): boolean;
  /** How many values have a row. Once they are as many as they may be, also the shared row counts. */
  values(day: string, dimension: string): number;
  /** Adds to the row of its day, dimension and value. */
  count(usage: DimensionRow): void;
}

/** The running totals and marks of an account. */
export interface AccountTotals {
  granted: NanoDollars;
  available: NanoDollars;
  held: NanoDollars;
  spent: NanoDollars;
  expired: NanoDollars;
  writtenOff: NanoDollars;
  floor: NanoDollars;
  /** The lowest floor that there was, or the lowest `available` after a forced adjustment. */
  lowestFloor: NanoDollars;
  frozen: boolean;
  seq: bigint;
  /** An unknown request whose id isn't newer than this may have been deleted. */
  lowWater: number;
  /** The same for requests that cost nothing. */
  freeLowWater: number;
  /** Earliest expiry of an open lot or end of an allowance's period, or earlier; Infinity when there is none. */
  nextExpiry: number;
  /** Version of the account's policy; 0 without one: then the account has no row that counts. */
  policyVersion: number;
}

export interface RequestRow {
  readonly id: string;
  readonly key: string;
  /** When it was admitted: the charge counts in the windows of that time. */
  readonly countedAt: number;
  /** The counters that it counts in. */
  readonly countedBy: CountedBy;
  /** Tokens taken from the limits of tokens per minute at admission. */
  readonly tokens: number;
  /** Unique among the requests of an API key that aren't voided. */
  idempotencyKey: IdempotencyKey | undefined;
  state: 'held' | FinalState;
  /** The hold while held, else the charge. */
  amount: NanoDollars;
  checkpoint: NanoDollars;
  due: number;
  /** Empty where unknown. */
  model: string;
  /** Position of the journal line of its end or expiry; of a charge in parts, of the first part. */
  line: bigint | undefined;
  ending: Ending | undefined;
  provider: string | undefined;
}

/** Whose counters a request counts in. */
export interface CountedBy {
  /** False for a request that was posted for an unknown key. */
  readonly key: boolean;
  readonly account: boolean;
  /** Id of the end user's row. */
  readonly endUser: string | undefined;
}

/** What counts against the limits of a key, an account or an end user. */
export interface CountersRow {
  held: NanoDollars;
  running: number;
  spent: NanoDollars;
  /** The latest time at which a request was counted, since the clock was set back. */
  countedAt: number;
  /** For each period: the part of `spent` of other windows than that of `countedAt`. */
  spentBefore: Record<WindowPeriod, NanoDollars>;
  /** Unused where the limits have no such limit. */
  requestBucket: BucketRow;
  tokenBucket: BucketRow;
}

export interface EndUserRow extends CountersRow {
  /** See `endUserRowId`. */
  readonly id: string;
}

export interface KeyRow extends CountersRow {
  readonly key: string;
  readonly createdAt: number;
  /** Hash of its newest secret. Undefined for a key that your app authenticates itself. */
  hash: string | undefined;
  /** The previous secret, during its overlap. */
  previous: { readonly hash: string; readonly until: number } | undefined;
  name: string;
  limits: KeyLimits;
  endUsers: EndUserLimits | undefined;
  expiresAt: number | undefined;
  paused: boolean;
  policy: string | undefined;
  /** Undefined while it is active. */
  revokedAt: number | undefined;
  /** Incremented by each change of the members above. */
  version: number;
}

/** A bucket that fills in a minute; see key-limits.ts. */
export interface BucketRow {
  level: number;
  at: number;
}

export interface LotRow {
  readonly id: string;
  readonly amount: NanoDollars;
  readonly expiresAt: number | undefined;
  readonly priority: number;
  remaining: NanoDollars;
}

/** An allowance. What the next lots are made by can differ from what the current period was granted. */
export interface AllowanceRow {
  readonly id: string;
  version: number;
  readonly per: AllowancePeriod;
  readonly anchor: number;
  /** Infinity: it does not end. */
  until: number;
  /** Start of the latest period that was granted. */
  period: number;
  /** The amount for that period; 0 once it was taken back. */
  granted: NanoDollars;
  amount: NanoDollars;
  rollover: Rollover;
  priority: number;
}

export function requestRecord(row: RequestRow): RequestRecord {
  const {
    id,
    state,
    amount,
    key,
    countedBy,
    checkpoint,
    due,
    idempotencyKey,
    model,
    line,
    ending,
    provider,
  } = row;
  return {
    id,
    state,
    amount,
    key,
    ...(countedBy.account && { inAccount: true }),
    ...(countedBy.endUser !== undefined && { endUser: endUserOfRow(countedBy.endUser) }),
    checkpoint,
    due,
    ...(idempotencyKey && { idempotencyKey }),
    ...(model && { model }),
    ...(line !== undefined && { line }),
    ...(ending && { ending }),
    ...(provider && { provider }),
  };
}

export function emptyTotals(): AccountTotals {
  return {
    granted: 0n,
    available: 0n,
    held: 0n,
    spent: 0n,
    expired: 0n,
    writtenOff: 0n,
    floor: 0n,
    lowestFloor: 0n,
    frozen: false,
    seq: 0n,
    lowWater: 0,
    freeLowWater: 0,
    nextExpiry: Infinity,
    policyVersion: 0,
  };
}

/** Id of an end user's row: safe in every store's keys, and unlike the id of an API key. */
export function endUserRowId(endUser: string, key = ''): string {
  return `${key}~${encodeURIComponent(endUser)}`;
}

export function endUserOfRow(id: string): { readonly key?: string; readonly endUser: string } {
  const at = id.indexOf('~');
  const key = id.slice(0, at);
  return { ...(key !== '' && { key }), endUser: decodeURIComponent(id.slice(at + 1)) };
}

/** A line of the journal that is to be written. */
export type NewLine = Omit<JournalLine, 'seq' | 'at' | 'available'>;

/** Completes the line with the current `available`, and appends it to the journal. */
export function writeLine(account: AccountRows, now: number, line: NewLine): void {
  const { totals } = account;
  totals.seq += 1n;
  account.append(Object.assign(line, { seq: totals.seq, at: now, available: totals.available }));
}

/**
 * The common part of every reply. Every command calls this, so the totals are
 * checked here: if they don't add up, which only a bug can cause, the account is
 * frozen as it is and nothing is repaired.
 */
export function replyMeta(account: AccountRows | undefined, now: number): { now: number; seq: bigint } {
  if (!account) return { now, seq: 0n };
  const { totals } = account;
  if (totals.granted !== totals.available + totals.held + totals.spent + totals.expired) totals.frozen = true;
  return { now, seq: totals.seq };
}

/** What can be spent: the balance, and what the floor allows below 0. Negative if an operator took more. */
export function spendable({ totals }: AccountRows): NanoDollars {
  return totals.available - totals.floor;
}

/** The public balance of an account. */
export function balanceOf(account: AccountRows): Balance {
  const { available, held, spent, granted, expired, writtenOff, floor, frozen, seq } = account.totals;
  return {
    available,
    held,
    spent,
    granted,
    expired,
    writtenOff,
    floor,
    frozen,
    seq,
    lots: account.openLots().map(lotState),
    allowances: account.allowances().map(allowanceState),
  };
}

export function lotState({ id, amount, remaining, expiresAt, priority }: LotRow): Lot {
  return { id, amount, remaining, ...(expiresAt !== undefined && { expiresAt }), priority };
}

export function allowanceState(row: AllowanceRow): Allowance {
  const { until, period, ...terms } = row;
  const end = until === Infinity ? {} : { until };
  return { ...terms, ...end, periodStart: period, resetsAt: laterPeriod(row, period, 1) };
}

/** The sums of an account that is being deleted, under a new id. */
export function deletedSums({ totals }: Pick<AccountRows, 'totals'>, now: number): DeletedAccount {
  const { granted, available, spent, expired, writtenOff } = totals;
  return { id: randomUUID(), deletedAt: now, granted, available, spent, expired, writtenOff };
}
