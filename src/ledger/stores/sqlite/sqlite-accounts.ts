import { LRUCache } from 'lru-cache';
import type { DeletedAccount } from '../../contract/account-changes.ts';
import type { MakesAccount } from '../../contract/reply.ts';
import type { ClockReading } from '../../engine/clock-steps.ts';
import { SqliteAccount } from './sqlite-account.ts';
import { integer } from './sqlite-columns.ts';
import type { Sql } from './sqlite-schema.ts';

/** Rows that are kept in memory: about 10 MB. */
const MAX_ROWS = 20_000;

/**
 * The accounts of a file, for the transactions that write to it.
 *
 * What a transaction read and wrote is kept for the next ones, until another connection has written, or a transaction
 * failed. What is kept is always as in the file: `begin` checks it, `save` writes what has changed.
 */
export class SqliteAccounts {
  readonly sql: Sql;
  /** The last one of any process, if it was read. */
  clockReading: ClockReading | undefined;
  readonly #kept = new LRUCache<string, KeptAccount>({
    maxSize: MAX_ROWS,
    sizeCalculation: ({ account }) => account.size,
  });
  /**
   * Those of the running transaction: none of them may be dropped before it was saved. Replaced by a new map, not cleared: V8
   * allocates the table of a cleared map in the old generation if the map itself is there.
   */
  #used = new Map<string, SqliteAccount>();
  /** Changes with each commit of another connection. */
  #version = -1n;

  constructor(sql: Sql) {
    this.sql = sql;
  }

  /** Begins a transaction, once the file is locked. */
  begin(): void {
    const changed = this.sql(OTHER_VERSION).get(this.#version);
    if (!changed) return;
    this.clear();
    this.#version = integer(changed, 'data_version');
  }

  find(name: string): SqliteAccount | undefined {
    return this.#known(name) ?? this.#use(name, SqliteAccount.find(this.sql, name));
  }

  /** Finds or creates an account. */
  open(name: string, now: number): SqliteAccount {
    return this.#known(name) ?? this.#use(name, SqliteAccount.open(this.sql, name, now));
  }

  /** Finds the account, or creates it unless `mustExist`. */
  openFor(
    { account, mustExist }: MakesAccount & { readonly account: string },
    now: number,
  ): SqliteAccount | undefined {
    return mustExist ? this.find(account) : this.open(account, now);
  }

  /** Deletes an account, and records its sums. */
  delete(name: string, deleted: DeletedAccount): void {
    this.find(name)?.delete(deleted);
    this.#used.delete(name);
    this.#kept.delete(name);
  }

  /** Writes all that has changed. */
  save(): void {
    for (const account of this.#used.values()) account.save();
  }

  /** Keeps the accounts of a transaction that was committed. */
  keep(): void {
    for (const [name, account] of this.#used) this.#kept.set(name, { account });
    this.#used = new Map();
  }

  /** Writes all that has changed, and reads it again when it is used next. */
  forget(): void {
    this.save();
    this.clear();
  }

  /** Drops everything, also what isn't saved. */
  clear(): void {
    this.#used = new Map();
    this.#kept.clear();
    this.clockReading = undefined;
  }

  #known(name: string): SqliteAccount | undefined {
    return this.#used.get(name) ?? this.#use(name, this.#kept.get(name)?.account);
  }

  #use<T extends SqliteAccount | undefined>(name: string, account: T): T {
    if (account) this.#used.set(name, account);
    return account;
  }
}

/** A new object each time: the cache asks for a size only when it is given another value. */
interface KeptAccount {
  readonly account: SqliteAccount;
}

/** No row while it is the same: Node makes a hidden class for each row, in V8's old generation. */
const OTHER_VERSION = 'SELECT data_version FROM pragma_data_version WHERE data_version <> ?';
