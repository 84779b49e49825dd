import { resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { admit, extend, reap, release, settle } from '../../engine/account-engine.ts';
import { balanceOf, deletedSums, requestRecord, replyMeta } from '../../engine/account-rows.ts';
import { type ClockSteps, clockSteps } from '../../engine/clock-steps.ts';
import {
  checkAccount,
  checkAdjust,
  checkAdmit,
  checkExtend,
  checkCompactUsage,
  checkGrant,
  checkJournal,
  checkRequest,
  checkSettle,
  checkSweep,
  checkCompact,
  checkUsage,
  checkUsageBy,
  checkVoid,
} from '../../engine/validate-commands.ts';
import {
  type AccountState,
  type Adjust,
  type AdjustResult,
  type Admit,
  type AdmitResult,
  type Allow,
  type AllowResult,
  type Balance,
  type CompactedSums,
  type DeleteAccountResult,
  type DeletedAccount,
  type DimensionRow,
  type EndAllowance,
  type EndAllowanceResult,
  type Extend,
  type ExtendResult,
  type Grant,
  type GrantResult,
  type JournalLine,
  type LedgerStore,
  type Refund,
  type RefundResult,
  type RequestRecord,
  type SetFloor,
  type SetFloorResult,
  type Settle,
  type SettleResult,
  StoreUnavailableError,
  type UsageRow,
  type Verify,
  type VerifyResult,
  type Void,
  type VoidResult,
} from '../../contract/ledger-store.ts';
import type {
  CreateKey,
  CreateKeyResult,
  EndUserStatus,
  FoundKey,
  KeyHashes,
  KeyRecord,
  KeyStatus,
  RotateKey,
  RotateKeyResult,
  UpdateKey,
  UpdateKeyResult,
} from '../../contract/key-records.ts';
import { allow, endAllowance } from '../../engine/allowances.ts';
import { updateCredits } from '../../engine/due-credits.ts';
import { adjust, grant, setFloor } from '../../engine/grants.ts';
import { refund } from '../../engine/refunds.ts';
import { checkAllow, checkEndAllowance, checkRefund, checkSetFloor } from '../../engine/validate-changes.ts';
import { verify } from '../../engine/witnesses.ts';
import { SqliteAccount } from './sqlite-account.ts';
import { accountNames, overdueAccounts } from './sqlite-account-names.ts';
import type { SqliteAccounts } from './sqlite-accounts.ts';
import { SqliteApiKeys } from './sqlite-api-keys.ts';
import { claim } from './sqlite-claims.ts';
import { announceGateway, liveGateways } from './sqlite-gateways.ts';
import { deletedAccounts, forgetDeletions } from './sqlite-deletion.ts';
import { followClock } from './sqlite-clock.ts';
import { prunePage } from './sqlite-pruning.ts';
import { rehearse } from './sqlite-rehearsal.ts';
import { SqliteRequestLog } from './sqlite-request-log.ts';
import { SqliteRouting } from './sqlite-routing.ts';
import type { Database } from './sqlite-schema.ts';
import { text, within64Bits } from './sqlite-columns.ts';
import { SqliteSession } from './sqlite-session.ts';
import { durable, type WriteMode } from './sqlite-transaction.ts';

/** Requests that one transaction of `sweep` ends, lines that one of `compact` removes: a few ms each. */
const SWEEP_STEP = 100;
const COMPACT_STEP = 1000n;

export interface SqliteStoreOptions {
  /** The store's clock, in ms, trusted as it is. @default `Date.now`, with detection of steps */
  readonly now?: () => number;
  /** Monotonic clock, in ms, that detects steps of `now`. @default `performance.now`, if `now` isn't given */
  readonly elapsed?: () => number;
  /**
   * Open the file even on platforms where each instance has its own temporary
   * disk. Set it only if this file is on a persistent, shared disk.
   *
   * @default false
   */
  readonly allowServerless?: boolean;
  /**
   * How long a command waits for other processes that lock the file, in ms; an admit waits at most until its `notAfter`.
   *
   * @default 5000
   */
  readonly timeoutMs?: number;
  /** Called with the absolute path once the file is open. */
  readonly onOpen?: (path: string) => void;
}

/**
 * A ledger in a SQLite file, by Node's built-in SQLite, for any number of
 * processes on one machine.
 *
 * Acknowledged changes survive a crash of the process. A power failure may lose
 * the latest settles and holds, but no change of an operator: grants, adjustments
 * and keys are on the disk when they are acknowledged.
 *
 * Every command is atomic. Those of one turn of the event loop are committed together at its end. While another process
 * locks the file, they wait for up to `timeoutMs`.
 */
export class SqliteStore implements LedgerStore {
  readonly requestLog: SqliteRequestLog;
  readonly routing: SqliteRouting;
  readonly name: string;
  readonly #session: SqliteSession;
  readonly #now: () => number;
  readonly #clockSteps: ClockSteps | undefined;
  readonly #apiKeys: SqliteApiKeys;

  /** @param file - created by the first command if missing; its directory must exist */
  constructor(file: string, options: SqliteStoreOptions = {}) {
    const { now, elapsed, allowServerless = false, onOpen, timeoutMs = 5000 } = options;
    if (typeof file !== 'string' || file === '' || file === ':memory:') {
      throw new TypeError(`file must be the path of a file, got ${JSON.stringify(file)}`);
    }
    this.name = `sqlite:${file}`;
    this.#session = new SqliteSession({
      path: resolve(file),
      open: openDatabase,
      allowServerless,
      onOpen,
      timeoutMs,
    });
    this.#now = now ?? Date.now;
    this.#clockSteps = clockSteps(now, elapsed);
    this.#apiKeys = new SqliteApiKeys(this.#session, this.#now);
    this.requestLog = new SqliteRequestLog(this.#session);
    this.routing = new SqliteRouting(this.#session, this.#now);
  }

  /** Opens the file, and executes one command of each kind in a transaction that is rolled back. */
  async ready(): Promise<void> {
    await this.#session.write('rehearsal', (accounts) => rehearse(accounts, this.#now()));
  }

  async admit(command: Admit): Promise<AdmitResult> {
    checkAdmit(command);
    const maxWaitMs = Math.max(0, command.notAfter - this.#now());
    return this.#leaseCommand(command.account, (rows, now) => admit(rows, command, now), maxWaitMs);
  }

  async extend(command: Extend): Promise<ExtendResult> {
    checkExtend(command);
    return this.#leaseCommand(command.account, (rows, now) => extend(rows, command, now));
  }

  async settle(command: Settle): Promise<SettleResult> {
    checkSettle(command);
    return this.#command(command.account, (rows, now) => settle(rows, command, now));
  }

  async void(command: Void): Promise<VoidResult> {
    checkVoid(command);
    return this.#command(command.account, (rows, now) => release(rows, command, now));
  }

  async grant(command: Grant): Promise<GrantResult> {
    checkGrant(command);
    return this.#session.write('durable', (accounts) => {
      const now = this.#now();
      return durable(grant(accounts.openFor(command, now), command, now));
    });
  }

  async adjust(command: Adjust): Promise<AdjustResult> {
    checkAdjust(command);
    return this.#command(command.account, (rows, now) => durable(adjust(rows, command, now)), 'durable');
  }

  async setFloor(command: SetFloor): Promise<SetFloorResult> {
    checkSetFloor(command);
    return this.#command(command.account, (rows, now) => durable(setFloor(rows, command, now)), 'durable');
  }

  async allow(command: Allow): Promise<AllowResult> {
    checkAllow(command);
    return this.#session.write('durable', (accounts) => {
      const now = this.#now();
      return durable(allow(accounts.openFor(command, now), command, now));
    });
  }

  async endAllowance(command: EndAllowance): Promise<EndAllowanceResult> {
    checkEndAllowance(command);
    return this.#command(
      command.account,
      (rows, now) => durable(endAllowance(rows, command, now)),
      'durable',
    );
  }

  async refund(command: Refund): Promise<RefundResult> {
    checkRefund(command);
    return this.#command(command.account, (rows, now) => durable(refund(rows, command, now)), 'durable');
  }

  async deleteAccount(account: string): Promise<DeleteAccountResult> {
    checkAccount(account);
    return this.#session.write('durable', (accounts) => {
      const now = this.#leaseNow(accounts);
      const rows = accounts.find(account);
      if (!rows) return { code: 'no_account' };
      reap(rows, Infinity, now);
      const { running } = rows;
      if (running > 0) return { code: 'running', requests: running };
      updateCredits(rows, now);
      const deleted = deletedSums(rows, now);
      accounts.delete(account, deleted);
      return { code: 'ok', deleted, durable: true };
    });
  }

  async *deletedAccounts(): AsyncGenerator<DeletedAccount> {
    yield* await this.#session.read(deletedAccounts);
  }

  async verify(command: Verify): Promise<VerifyResult> {
    checkAccount(command.account);
    return this.#session.read((sql) =>
      verify(SqliteAccount.find(sql, command.account), command, this.#now()),
    );
  }

  async sweep(budget: number): Promise<number> {
    checkSweep(budget);
    const now = await this.#session.write('write', (accounts) => {
      const now = this.#leaseNow(accounts);
      forgetDeletions(accounts.sql, now);
      return now;
    });
    let left = budget;
    let names: string[] = [];
    let last = '';
    await this.#steps(async () => {
      const [name] = names;
      if (name === undefined) {
        names = await this.#session.read((sql) => overdueAccounts(sql, last, now));
        return names.length > 0;
      }
      const step = Math.min(SWEEP_STEP, left);
      const count = await this.#leaseCommand(name, (rows, now) => {
        if (!rows) return 0;
        const count = reap(rows, step, now);
        updateCredits(rows, now);
        replyMeta(rows, now);
        return count;
      });
      left -= count;
      if (count < SWEEP_STEP) last = names.shift() ?? '';
      return true;
    });
    return budget - left;
  }

  async request(account: string, requestId: string): Promise<RequestRecord | undefined> {
    checkRequest(account, requestId);
    return this.#session.read((sql) => {
      const row = SqliteAccount.find(sql, account)?.request(requestId);
      return row && requestRecord(row);
    });
  }

  async snapshot(account: string): Promise<AccountState | undefined> {
    checkAccount(account);
    return this.#session.read((sql) => SqliteAccount.find(sql, account)?.state(account));
  }

  async balance(account: string): Promise<Balance | undefined> {
    checkAccount(account);
    return this.#command(account, (rows, now) => {
      if (!rows) return undefined;
      updateCredits(rows, now);
      replyMeta(rows, now);
      return balanceOf(rows);
    });
  }

  async journal(account: string, afterSeq: bigint, limit: number): Promise<readonly JournalLine[]> {
    checkJournal(account, afterSeq, limit);
    const [after, most] = [within64Bits(afterSeq), Math.min(limit, Number.MAX_SAFE_INTEGER)];
    return this.#session.read((sql) => SqliteAccount.find(sql, account)?.lines(after, most) ?? []);
  }

  async compact(account: string, seq: bigint): Promise<void> {
    checkCompact(account, seq);
    const until = within64Bits(seq);
    await this.#steps(() => this.#command(account, (rows) => rows?.compact(until, COMPACT_STEP) ?? false));
  }

  async compacted(account: string): Promise<CompactedSums | undefined> {
    checkAccount(account);
    return this.#session.read((sql) => SqliteAccount.find(sql, account)?.compacted);
  }

  async usage(...query: Parameters<LedgerStore['usage']>): Promise<readonly UsageRow[]> {
    checkUsage(...query);
    const [account, fromDay, toDay, key] = query;
    if (key !== undefined) {
      return this.#session.read(
        (sql) => SqliteAccount.find(sql, account)?.usageOfKey(fromDay, toDay, key) ?? [],
      );
    }
    return this.#session.readPages<UsageRow>(
      (sql, after) => SqliteAccount.find(sql, account)?.usagePage(fromDay, toDay, after) ?? [],
    );
  }

  async usageBy(...query: Parameters<LedgerStore['usageBy']>): Promise<readonly DimensionRow[]> {
    checkUsageBy(...query);
    const [account, ...rest] = query;
    return this.#session.readPages<DimensionRow>(
      (sql, after) => SqliteAccount.find(sql, account)?.dimensions.page(...rest, after) ?? [],
    );
  }

  async compactUsage(account: string, beforeDay: string): Promise<void> {
    checkCompactUsage(account, beforeDay);
    return this.#command(account, (rows) => rows?.compactUsage(beforeDay));
  }

  async prune(account: string): Promise<number> {
    checkAccount(account);
    let total = 0;
    let after: string | undefined = '';
    await this.#steps(async () => {
      const from = after ?? '';
      const page = await this.#command(account, (rows, now) => rows && prunePage(rows, from, now));
      total += page?.pruned ?? 0;
      after = page?.next;
      return after !== undefined;
    });
    return total;
  }

  async freeze(account: string, frozen: boolean): Promise<boolean> {
    checkAccount(account);
    return this.#command(
      account,
      (rows) => {
        if (rows) rows.totals.frozen = frozen;
        return rows !== undefined;
      },
      'durable',
    );
  }

  async *accounts(): AsyncGenerator<string> {
    let names = await this.#session.read((sql) => accountNames(sql, ''));
    while (names.length > 0) {
      yield* names;
      const last = names.at(-1) ?? '';
      names = await this.#session.read((sql) => accountNames(sql, last));
    }
  }

  createKey(command: CreateKey): Promise<CreateKeyResult> {
    return this.#apiKeys.createKey(command);
  }

  findKey(hash: string): Promise<FoundKey | undefined> {
    return this.#apiKeys.findKey(hash);
  }

  keyState(account: string, key: string): Promise<KeyStatus | undefined> {
    return this.#apiKeys.keyState(account, key);
  }

  endUserState(account: string, endUser: string, key?: string): Promise<EndUserStatus | undefined> {
    return this.#apiKeys.endUserState(account, endUser, key);
  }

  keys(account: string): Promise<readonly KeyRecord[]> {
    return this.#apiKeys.keys(account);
  }

  keyHashes(account: string): Promise<ReadonlyMap<string, KeyHashes>> {
    return this.#apiKeys.keyHashes(account);
  }

  updateKey(command: UpdateKey): Promise<UpdateKeyResult> {
    return this.#apiKeys.updateKey(command);
  }

  rotateKey(command: RotateKey): Promise<RotateKeyResult> {
    return this.#apiKeys.rotateKey(command);
  }

  revokeKey(account: string, key: string): Promise<boolean> {
    return this.#apiKeys.revokeKey(account, key);
  }

  /** Reads the whole file, which blocks this process's event loop. */
  async damage(): Promise<readonly string[]> {
    const rows = await this.#session.read((sql) => sql('PRAGMA integrity_check').all());
    return rows.map((row) => text(row, 'integrity_check')).filter((found) => found !== 'ok');
  }

  async announceGateway(gateway: string, leaseMs: number): Promise<void> {
    await this.#session.write('write', ({ sql }) => announceGateway(sql, gateway, this.#now(), leaseMs));
  }

  async claim(name: string, leaseMs: number): Promise<number | undefined> {
    return this.#session.write('write', ({ sql }) => claim(sql, name, this.#now(), leaseMs));
  }

  async liveGateways(): Promise<ReadonlyMap<string, number>> {
    return this.#session.read((sql) => liveGateways(sql, this.#now()));
  }

  /** Waits for running commands, and refuses later ones. */
  async close(): Promise<void> {
    await this.#session.close();
  }

  /** One command on one account, in one transaction. */
  async #command<T>(
    account: string,
    work: (rows: SqliteAccount | undefined, now: number) => T,
    mode: WriteMode = 'write',
  ): Promise<T> {
    return this.#session.write(mode, (accounts) => work(accounts.find(account), this.#now()));
  }

  /** Like `#command`, for commands that use leases. */
  async #leaseCommand<T>(
    account: string,
    work: (rows: SqliteAccount | undefined, now: number) => T,
    maxWaitMs?: number,
  ): Promise<T> {
    return this.#session.write(
      'write',
      (accounts) => {
        const now = this.#leaseNow(accounts);
        return work(accounts.find(account), now);
      },
      maxWaitMs,
    );
  }

  /** The store's time, for commands that use leases: moves all leases first if the clock was set. */
  #leaseNow(accounts: SqliteAccounts): number {
    const now = this.#now();
    followClock(accounts, this.#clockSteps, now);
    return now;
  }

  /** Runs steps, each its own command, in separate turns of the event loop, until one returns false. */
  async #steps(step: () => Promise<boolean>): Promise<void> {
    for (let count = 0; ; count++) {
      try {
        if (!(await step())) return;
      } catch (cause) {
        throw count === 0 ? cause : new StoreUnavailableError('unknown', { cause });
      }
      await setImmediate();
    }
  }
}

/** Loads SQLite lazily, by a call that bundlers don't try to resolve. */
function openDatabase(path: string): Database {
  const sqlite = process.getBuiltinModule('node:sqlite');
  return new sqlite.DatabaseSync(path);
}
