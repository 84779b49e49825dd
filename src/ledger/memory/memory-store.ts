import { admit, extend, reap, release, settle } from '../books/account.ts';
import { balanceOf, requestRecord, stamp } from '../books/account-rows.ts';
import {
  checkAccount,
  checkAdjust,
  checkAdmit,
  checkCreateKey,
  checkExtend,
  checkGrant,
  checkJournal,
  checkKey,
  checkRequest,
  checkSettle,
  checkSweep,
  checkTrim,
  checkVoid,
} from '../books/arguments.ts';
import { newKey, sameLimits } from '../books/key-limits.ts';
import type {
  AccountState,
  Adjust,
  AdjustResult,
  Admit,
  AdmitResult,
  Balance,
  CreateKey,
  CreateKeyResult,
  Extend,
  ExtendResult,
  Grant,
  GrantResult,
  JournalLine,
  KeyRecord,
  LedgerStore,
  RequestRecord,
  Settle,
  SettleResult,
  Void,
  VoidResult,
} from '../ledger.ts';
import { adjust, expireLots, grant } from '../books/lots.ts';
import { keyRecord, MemoryAccount } from './memory-account.ts';

/**
 * A ledger in this process's memory, for tests and for trying things out: when
 * the process ends, so does the money.
 *
 * Every command runs to its end in one turn, so concurrent ones are atomic.
 * Memory grows with the requests of the last 24 hours and with the journal, of
 * which the newest 50,000 lines of an account are kept and older ones folded.
 */
export class MemoryStore implements LedgerStore {
  readonly #now: () => number;
  readonly #accounts = new Map<string, MemoryAccount>();
  /** SHA-256 of an API key -> where it is recorded. */
  readonly #pointers = new Map<string, { readonly account: string; readonly key: string }>();

  /** @param options.now - the store's clock, in ms; `Date.now` by default */
  constructor({ now = Date.now }: { readonly now?: () => number } = {}) {
    this.#now = now;
  }

  async admit(command: Admit): Promise<AdmitResult> {
    checkAdmit(command);
    return admit(this.#accounts.get(command.account), command, this.#now());
  }

  async extend(command: Extend): Promise<ExtendResult> {
    checkExtend(command);
    return extend(this.#accounts.get(command.account), command, this.#now());
  }

  async settle(command: Settle): Promise<SettleResult> {
    checkSettle(command);
    return settle(this.#accounts.get(command.account), command, this.#now());
  }

  async void(command: Void): Promise<VoidResult> {
    checkVoid(command);
    return release(this.#accounts.get(command.account), command, this.#now());
  }

  async grant(command: Grant): Promise<GrantResult> {
    checkGrant(command);
    return grant(this.#open(command.account), command, this.#now());
  }

  async adjust(command: Adjust): Promise<AdjustResult> {
    checkAdjust(command);
    return adjust(this.#accounts.get(command.account), command, this.#now());
  }

  async sweep(budget: number): Promise<number> {
    checkSweep(budget);
    const now = this.#now();
    let left = budget;
    for (const account of this.#accounts.values()) {
      if (left > 0) left -= reap(account, left, now);
      expireLots(account, now);
      stamp(account, now);
    }
    return budget - left;
  }

  async request(account: string, requestId: string): Promise<RequestRecord | undefined> {
    checkRequest(account, requestId);
    const row = this.#accounts.get(account)?.request(requestId);
    return row && requestRecord(row);
  }

  async snapshot(account: string): Promise<AccountState | undefined> {
    checkAccount(account);
    return this.#accounts.get(account)?.state(account);
  }

  async balance(account: string): Promise<Balance | undefined> {
    checkAccount(account);
    const rows = this.#accounts.get(account);
    if (!rows) return undefined;
    const now = this.#now();
    expireLots(rows, now);
    stamp(rows, now);
    return balanceOf(rows);
  }

  async journal(account: string, afterSeq: bigint, limit: number): Promise<readonly JournalLine[]> {
    checkJournal(account, afterSeq, limit);
    return this.#accounts.get(account)?.journal(afterSeq, limit) ?? [];
  }

  async trim(account: string, seq: bigint): Promise<void> {
    checkTrim(account, seq);
    this.#accounts.get(account)?.trim(seq);
  }

  async freeze(account: string, frozen: boolean): Promise<boolean> {
    checkAccount(account);
    const rows = this.#accounts.get(account);
    if (rows) rows.books.frozen = frozen;
    return rows !== undefined;
  }

  async *accounts(): AsyncGenerator<string> {
    yield* this.#accounts.keys();
  }

  async createKey(command: CreateKey): Promise<CreateKeyResult> {
    checkCreateKey(command);
    const { account, key, hash, name, limits = {} } = command;
    const now = this.#now();
    const pointer = this.#pointers.get(hash);
    const known = this.#accounts.get(account)?.key(key);
    if (known || pointer) {
      const same = known?.hash === hash && known.name === name && sameLimits(known.limits, limits);
      return { code: same ? 'ok' : 'conflict', ...stamp(this.#accounts.get(account), now) };
    }
    const rows = this.#open(account);
    rows.saveKey(newKey({ key, hash, name, limits }, now));
    this.#pointers.set(hash, { account, key });
    return { code: 'ok', ...stamp(rows, now) };
  }

  async findKey(hash: string): Promise<KeyRecord | undefined> {
    const pointer = this.#pointers.get(hash);
    const row = pointer && this.#accounts.get(pointer.account)?.key(pointer.key);
    return row && keyRecord(pointer.account, row);
  }

  async keys(account: string): Promise<readonly KeyRecord[]> {
    checkAccount(account);
    return this.#accounts.get(account)?.registeredKeys(account) ?? [];
  }

  async keyHashes(account: string): Promise<ReadonlyMap<string, string>> {
    checkAccount(account);
    return this.#accounts.get(account)?.keyHashes() ?? new Map();
  }

  async revokeKey(account: string, key: string): Promise<boolean> {
    checkAccount(account);
    checkKey(key);
    const rows = this.#accounts.get(account);
    const row = rows?.key(key);
    if (!rows || !row?.hash) return false;
    row.revokedAt ??= this.#now();
    rows.saveKey(row);
    return true;
  }

  async close(): Promise<void> {
    // Nothing is open.
  }

  #open(account: string): MemoryAccount {
    let rows = this.#accounts.get(account);
    if (!rows) {
      rows = new MemoryAccount();
      this.#accounts.set(account, rows);
    }
    return rows;
  }
}
