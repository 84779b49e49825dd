import type {
  Balance,
  Ending,
  FinalState,
  IdempotencyKey,
  JournalLine,
  RequestRecord,
  UsageRow,
} from '../contract/ledger-store.ts';
import type { KeyLimits } from '../contract/key-records.ts';
import type { NanoDollars } from '../contract/money.ts';

/**
 * Where the rows of one account are kept: maps, or tables inside a transaction.
 *
 * The transitions in account.ts and lots.ts change rows in place and then save
 * them; `totals` is changed in place, and the store saves it after each command.
 */
export interface AccountRows {
  readonly totals: AccountTotals;

  request(id: string): RequestRow | undefined;
  /** The request, not voided, that was admitted for this API key with this idempotency key. */
  requestByIdempotencyKey(apiKey: string, key: string): RequestRow | undefined;
  /** Takes the idempotency key from a request, for another one that is saved next. */
  freeIdempotencyKey(row: RequestRow): void;
  /** The row whose `due` is least, by id among equals, if that is at or before `now`. */
  firstDue(now: number): RequestRow | undefined;
  saveRequest(row: RequestRow): void;
  forgetRequest(row: RequestRow): void;

  key(id: string): KeyRow | undefined;
  /** Saves what requests change of a key, or all of one that is new. */
  saveKey(row: KeyRow): void;
  /** Saves all of a key. */
  saveKeyTerms(row: KeyRow): void;

  /** Lots with something remaining, in burn order. Saving a lot doesn't change a list already returned. */
  openLots(): readonly LotRow[];
  saveLot(row: LotRow): void;

  /** The parameters that an id of a grant or adjustment was first used with. */
  fingerprint(id: string): string | undefined;
  saveFingerprint(id: string, fingerprint: string): void;

  append(line: JournalLine): void;
  /** The line at this position; undefined once it is folded. */
  line(seq: bigint): JournalLine | undefined;

  /** Adds to the row of its day, key and model; what is negative was added before. */
  count(usage: UsageRow): void;
}

/** An account's own numbers. */
export interface AccountTotals {
  granted: NanoDollars;
  available: NanoDollars;
  held: NanoDollars;
  spent: NanoDollars;
  expired: NanoDollars;
  writtenOff: NanoDollars;
  floor: NanoDollars;
  frozen: boolean;
  seq: bigint;
  /** An unknown request whose id isn't newer may have been forgotten; */
  lowWater: number;
  /** or, if it cost nothing, one whose id isn't newer than this. */
  freeLowWater: number;
  /** No open lot expires before this time; Infinity when none expires at all. */
  nextExpiry: number;
}

export interface RequestRow {
  readonly id: string;
  readonly key: string;
  /** The key's budget window that it was admitted in: its charge counts there, or nowhere; -1: nowhere. */
  readonly window: number;
  /** What it took from the key's tokens per minute when it was admitted. */
  readonly tokens: number;
  /** Of those that aren't voided, one request of an API key has it. */
  idempotencyKey: IdempotencyKey | undefined;
  state: 'held' | FinalState;
  /** The hold while held, else what was charged. */
  amount: NanoDollars;
  checkpoint: NanoDollars;
  due: number;
  /** Empty where no command said it. */
  model: string;
  /** Position of the line that it ended with, or expired with; of a charge in parts, of the first. */
  line: bigint | undefined;
  ending: Ending | undefined;
  provider: string | undefined;
}

export interface KeyRow {
  readonly key: string;
  readonly createdAt: number;
  /** Of its newest secret. Undefined for a key that the host authenticates itself. */
  hash: string | undefined;
  /** The secret before, where it goes on working for a while. */
  previous: { readonly hash: string; readonly until: number } | undefined;
  name: string;
  limits: KeyLimits;
  expiresAt: number | undefined;
  policy: string | undefined;
  /** Undefined while it is active. */
  revokedAt: number | undefined;
  /** Raised by each change of what stands above. */
  version: number;
  held: NanoDollars;
  running: number;
  spent: NanoDollars;
  window: number;
  /** How full the buckets are, each limited only where `limits` says so. */
  requestBucket: BucketRow;
  tokenBucket: BucketRow;
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

export function requestRecord(row: RequestRow): RequestRecord {
  const { id, state, amount, key, checkpoint, due, idempotencyKey, model, line, ending, provider } = row;
  return {
    id,
    state,
    amount,
    key,
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
    frozen: false,
    seq: 0n,
    lowWater: 0,
    freeLowWater: 0,
    nextExpiry: Infinity,
  };
}

/** Writes the next line of the journal, with what is available as it is now. */
export function writeLine(
  account: AccountRows,
  now: number,
  line: Omit<JournalLine, 'seq' | 'at' | 'available'>,
): void {
  const { totals } = account;
  totals.seq += 1n;
  account.append({ ...line, seq: totals.seq, at: now, available: totals.available });
}

/**
 * The part that every reply has. No command replies without passing here, so
 * this is where the totals are checked: if they don't add up, which only a bug
 * can cause, the account is frozen as it is and nothing is repaired.
 */
export function replyMeta(account: AccountRows | undefined, now: number): { now: number; seq: bigint } {
  if (!account) return { now, seq: 0n };
  const { totals } = account;
  if (totals.granted !== totals.available + totals.held + totals.spent + totals.expired) totals.frozen = true;
  return { now, seq: totals.seq };
}

/** What people ask of an account. */
export function balanceOf({ totals }: AccountRows): Balance {
  const { available, held, spent, granted, expired, writtenOff, frozen } = totals;
  return { available, held, spent, granted, expired, writtenOff, frozen };
}
