/**
 * A log of requests beside the books: what operators look up, bounded in size and age. It is not the books: a row may be
 * missing after a crash, and no amount of money is computed from it.
 *
 * Ids of requests sort by time. `describeLedgerStore` of `chat-completions-router/testing/contracts` tests it where a store has it.
 */
export interface RequestLogStore {
  /** Adds rows, in any order. A row whose id is there replaces it. */
  append(rows: readonly RequestLogRow[]): Promise<void>;
  find(id: string): Promise<RequestLogRow | undefined>;
  /** The newest rows first. */
  page(query: RequestLogPage): Promise<readonly RequestLogRow[]>;
  /** Deletes the rows that are older than the id, and the oldest beyond the number; returns how many, at most `TRIM_STEP`. */
  trim(before: string, max: number): Promise<number>;
  /** Deletes the rows of an account; with `before`, those that are older than this id. */
  forget(account: string, before?: string): Promise<void>;
}

/** Most rows that one call of `trim` deletes. */
export const TRIM_STEP = 1000;

/** After this, every process has written what it had of an account that was deleted. */
export const LATE_ROWS_MS = 3000;

export interface RequestLogRow {
  /** Of the request. */
  readonly id: string;
  readonly account: string;
  /** What is logged of it, in at most 16 KiB. */
  readonly json: string;
  /** A row of this id was added before, with other JSON. */
  readonly replaces?: boolean;
}

export interface RequestLogPage {
  /** Only of this account. */
  readonly account?: string;
  /** Ids from this one on. */
  readonly from: string;
  /** Ids before this one. */
  readonly before: string;
  /** Most rows to return: 1 to 1,000. */
  readonly limit: number;
}
