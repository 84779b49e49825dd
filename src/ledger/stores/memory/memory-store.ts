import type { Answer } from '../../../async/answer.ts';
import { admit, extend, reap, release, settle } from '../../engine/account-engine.ts';
import { balanceOf, deletedSums, requestRecord, replyMeta } from '../../engine/account-rows.ts';
import { type ClockSteps, clockSteps, type ClockReading } from '../../engine/clock-steps.ts';
import {
  checkAccount,
  checkAdjust,
  checkAdmit,
  checkCreateKey,
  checkEndUserOf,
  checkExtend,
  checkCompactUsage,
  checkGrant,
  checkJournal,
  checkKeyOf,
  checkRequest,
  checkRotateKey,
  checkSettle,
  checkSweep,
  checkCompact,
  checkUpdateKey,
  checkUsage,
  checkUsageBy,
  checkVoid,
} from '../../engine/validate-commands.ts';
import {
  endUserStatus,
  foundKey,
  isSameKey,
  keyHashes,
  keyRecord,
  keyStatus,
  createdKey,
  revokeKey,
  rotateKey,
  updateKey,
} from '../../engine/key-states.ts';
import { CLAIM_SLACK_MS } from '../../contract/ledger-store.ts';
import type {
  AccountState,
  Adjust,
  AdjustResult,
  Admit,
  AdmitResult,
  Allow,
  AllowResult,
  Balance,
  CompactedSums,
  DeleteAccountResult,
  DeletedAccount,
  DimensionRow,
  EndAllowance,
  EndAllowanceResult,
  Extend,
  ExtendResult,
  Grant,
  GrantResult,
  JournalLine,
  LedgerStore,
  Refund,
  RefundResult,
  RequestLogStore,
  RequestRecord,
  RoutingStore,
  SetFloor,
  SetFloorResult,
  Settle,
  SettleResult,
  UsageRow,
  Verify,
  VerifyResult,
  Void,
  VoidResult,
} from '../../contract/ledger-store.ts';
import {
  ACCOUNT_POLICY,
  type CreateKey,
  type CreateKeyResult,
  type EndUserStatus,
  type FoundKey,
  type KeyHashes,
  type KeyRecord,
  type KeyStatus,
  type RotateKey,
  type RotateKeyResult,
  type UpdateKey,
  type UpdateKeyResult,
} from '../../contract/key-records.ts';
import { allow, endAllowance } from '../../engine/allowances.ts';
import { updateCredits } from '../../engine/due-credits.ts';
import { adjust, grant, setFloor } from '../../engine/grants.ts';
import { pruneEndUsers, pruneSessions } from '../../engine/pruning.ts';
import { refund } from '../../engine/refunds.ts';
import { firstLowWater, RETENTION_MS } from '../../engine/retention.ts';
import { checkAllow, checkEndAllowance, checkRefund, checkSetFloor } from '../../engine/validate-changes.ts';
import { verify } from '../../engine/witnesses.ts';
import type { MakesAccount } from '../../contract/reply.ts';
import { MemoryAccount } from './memory-account.ts';
import { MemoryRequestLog } from './memory-request-log.ts';
import { MemoryRouting } from './memory-routing.ts';

export interface MemoryStoreOptions {
  /** The store's clock, in ms, trusted as it is. @default `Date.now`, with detection of steps */
  readonly now?: () => number;
  /** Monotonic clock, in ms, that detects steps of `now`. @default `performance.now`, if `now` isn't given */
  readonly elapsed?: () => number;
}

/**
 * A ledger in this process's memory, for tests and experiments: when the process
 * ends, the money is gone.
 *
 * Every command is synchronous, hence atomic. Memory grows with the requests of the last 24 hours (10 minutes for those
 * that cost nothing) and with the journals: the newest 50,000 lines of each account are kept, older ones are compacted.
 */
export class MemoryStore implements LedgerStore {
  readonly requestLog: RequestLogStore = new MemoryRequestLog();
  readonly routing: RoutingStore = new MemoryRouting(() => this.#now());
  readonly #now: () => number;
  readonly #clockSteps: ClockSteps | undefined;
  #lastReading: ClockReading | undefined;
  readonly #accounts = new Map<string, MemoryAccount>();
  readonly #claims = new Map<string, { readonly since: number; readonly until: number }>();
  /** Gateway -> end of its lease. */
  readonly #gateways = new Map<string, number>();
  /** SHA-256 of an API key -> its account and key id. */
  readonly #pointers = new Map<string, { readonly account: string; readonly key: string }>();

  readonly #deleted: DeletedAccount[] = [];
  /** Account -> when it was deleted, for a day. */
  readonly #deletions = new Map<string, number>();

  constructor({ now, elapsed }: MemoryStoreOptions = {}) {
    this.#now = now ?? Date.now;
    this.#clockSteps = clockSteps(now, elapsed);
  }

  admit(command: Admit): Answer<AdmitResult> {
    checkAdmit(command);
    const now = this.#leaseNow();
    return admit(this.#accounts.get(command.account), command, now);
  }

  extend(command: Extend): Answer<ExtendResult> {
    checkExtend(command);
    const now = this.#leaseNow();
    return extend(this.#accounts.get(command.account), command, now);
  }

  settle(command: Settle): Answer<SettleResult> {
    checkSettle(command);
    return settle(this.#accounts.get(command.account), command, this.#now());
  }

  void(command: Void): Answer<VoidResult> {
    checkVoid(command);
    return release(this.#accounts.get(command.account), command, this.#now());
  }

  async grant(command: Grant): Promise<GrantResult> {
    checkGrant(command);
    return grant(this.#open(command), command, this.#now());
  }

  async adjust(command: Adjust): Promise<AdjustResult> {
    checkAdjust(command);
    return adjust(this.#accounts.get(command.account), command, this.#now());
  }

  async setFloor(command: SetFloor): Promise<SetFloorResult> {
    checkSetFloor(command);
    return setFloor(this.#accounts.get(command.account), command, this.#now());
  }

  async allow(command: Allow): Promise<AllowResult> {
    checkAllow(command);
    return allow(this.#open(command), command, this.#now());
  }

  async endAllowance(command: EndAllowance): Promise<EndAllowanceResult> {
    checkEndAllowance(command);
    return endAllowance(this.#accounts.get(command.account), command, this.#now());
  }

  async refund(command: Refund): Promise<RefundResult> {
    checkRefund(command);
    return refund(this.#accounts.get(command.account), command, this.#now());
  }

  async deleteAccount(account: string): Promise<DeleteAccountResult> {
    checkAccount(account);
    const rows = this.#accounts.get(account);
    if (!rows) return { code: 'no_account' };
    const now = this.#leaseNow();
    reap(rows, Infinity, now);
    if (rows.running > 0) return { code: 'running', requests: rows.running };
    updateCredits(rows, now);
    this.#dropPointers(account, () => true);
    this.#accounts.delete(account);
    const deleted = deletedSums(rows, now);
    this.#deleted.push(deleted);
    this.#deletions.set(account, now);
    return { code: 'ok', deleted };
  }

  async *deletedAccounts(): AsyncGenerator<DeletedAccount> {
    yield* this.#deleted;
  }

  async verify(command: Verify): Promise<VerifyResult> {
    checkAccount(command.account);
    return verify(this.#accounts.get(command.account), command, this.#now());
  }

  async sweep(budget: number): Promise<number> {
    checkSweep(budget);
    const now = this.#leaseNow();
    let left = budget;
    for (const account of this.#accounts.values()) {
      if (left > 0) left -= reap(account, left, now);
      updateCredits(account, now);
      replyMeta(account, now);
    }
    for (const [account, at] of this.#deletions) {
      if (at <= now - RETENTION_MS) this.#deletions.delete(account);
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
    updateCredits(rows, now);
    replyMeta(rows, now);
    return balanceOf(rows);
  }

  async journal(account: string, afterSeq: bigint, limit: number): Promise<readonly JournalLine[]> {
    checkJournal(account, afterSeq, limit);
    return this.#accounts.get(account)?.journal.lines(afterSeq, limit) ?? [];
  }

  async compact(account: string, seq: bigint): Promise<void> {
    checkCompact(account, seq);
    this.#accounts.get(account)?.journal.compact(seq);
  }

  async compacted(account: string): Promise<CompactedSums | undefined> {
    checkAccount(account);
    return this.#accounts.get(account)?.journal.compacted;
  }

  async usage(...query: Parameters<LedgerStore['usage']>): Promise<readonly UsageRow[]> {
    checkUsage(...query);
    const [account, ...rest] = query;
    return this.#accounts.get(account)?.usage(...rest) ?? [];
  }

  async usageBy(
    account: string,
    dimension: string,
    fromDay: string,
    toDay: string,
  ): Promise<readonly DimensionRow[]> {
    checkUsageBy(account, dimension, fromDay, toDay);
    const rows = this.#accounts.get(account)?.dimensions.all() ?? [];
    return rows.filter((row) => row.dimension === dimension && row.day >= fromDay && row.day <= toDay);
  }

  async compactUsage(account: string, beforeDay: string): Promise<void> {
    checkCompactUsage(account, beforeDay);
    this.#accounts.get(account)?.compactUsage(beforeDay);
  }

  async prune(account: string): Promise<number> {
    checkAccount(account);
    const rows = this.#accounts.get(account);
    if (!rows) return 0;
    const now = this.#now();
    const endUsers = pruneEndUsers(rows, rows.endUsers(), now);
    const sessions = pruneSessions(rows, rows.keys(), now);
    if (sessions > 0) this.#dropPointers(account, (key) => !rows.key(key));
    return endUsers + sessions;
  }

  async freeze(account: string, frozen: boolean): Promise<boolean> {
    checkAccount(account);
    const rows = this.#accounts.get(account);
    if (rows) rows.totals.frozen = frozen;
    return rows !== undefined;
  }

  async *accounts(): AsyncGenerator<string> {
    yield* this.#accounts.keys();
  }

  async createKey(command: CreateKey): Promise<CreateKeyResult> {
    checkCreateKey(command);
    const { account, key, hash } = command;
    const now = this.#now();
    const known = this.#accounts.get(account)?.key(key);
    if (known?.hash || this.#pointers.has(hash)) {
      const code = isSameKey(known, command) ? 'ok' : 'conflict';
      return { code, ...replyMeta(this.#accounts.get(account), now) };
    }
    const rows = this.#open(command);
    if (!rows) return { code: 'no_account', ...replyMeta(undefined, now) };
    rows.saveKeyTerms(createdKey(known, command, now));
    this.#pointers.set(hash, { account, key });
    return { code: 'ok', ...replyMeta(rows, now) };
  }

  async findKey(hash: string): Promise<FoundKey | undefined> {
    const pointer = this.#pointers.get(hash);
    const row = pointer && this.#accounts.get(pointer.account)?.key(pointer.key);
    const policy = this.#accounts.get(pointer?.account ?? '')?.key(ACCOUNT_POLICY);
    return row && pointer && foundKey(pointer.account, { row, policy }, hash, this.#now());
  }

  async keyState(account: string, key: string): Promise<KeyStatus | undefined> {
    checkKeyOf(account, key);
    const row = this.#accounts.get(account)?.key(key);
    return row && (row.hash || key === ACCOUNT_POLICY) ? keyStatus(account, row, this.#now()) : undefined;
  }

  async endUserState(account: string, endUser: string, key?: string): Promise<EndUserStatus | undefined> {
    checkEndUserOf(account, endUser, key);
    const rows = this.#accounts.get(account);
    return rows && endUserStatus(rows, { endUser, key }, this.#now());
  }

  async keys(account: string): Promise<readonly KeyRecord[]> {
    checkAccount(account);
    const rows = [...(this.#accounts.get(account)?.keys() ?? [])];
    return rows.filter((row) => row.hash).map((row) => keyRecord(account, row));
  }

  async keyHashes(account: string): Promise<ReadonlyMap<string, KeyHashes>> {
    checkAccount(account);
    return keyHashes(this.#accounts.get(account)?.keys() ?? []);
  }

  async updateKey(command: UpdateKey): Promise<UpdateKeyResult> {
    checkUpdateKey(command);
    return updateKey(this.#accounts.get(command.account), command, this.#now());
  }

  async rotateKey(command: RotateKey): Promise<RotateKeyResult> {
    checkRotateKey(command);
    const { account, key, hash } = command;
    const rows = this.#accounts.get(account);
    const row = rows?.key(key);
    const before = [row?.hash, row?.previous?.hash];
    const result = rotateKey(rows, command, this.#now(), this.#pointers.has(hash));
    if (result.code !== 'ok') return result;
    this.#pointers.set(hash, { account, key });
    for (const old of before) {
      if (old && old !== row?.hash && old !== row?.previous?.hash) this.#pointers.delete(old);
    }
    return result;
  }

  async revokeKey(account: string, key: string): Promise<boolean> {
    checkKeyOf(account, key);
    return revokeKey(this.#accounts.get(account), key, this.#now());
  }

  async announceGateway(gateway: string, leaseMs: number): Promise<void> {
    if (leaseMs > 0) this.#gateways.set(gateway, this.#now() + leaseMs);
    else this.#gateways.delete(gateway);
  }

  async claim(name: string, leaseMs: number): Promise<number | undefined> {
    const now = this.#now();
    const { since, until } = this.#claims.get(name) ?? { since: now, until: now };
    if (leaseMs === 0) this.#claims.delete(name);
    if (leaseMs === 0 || (until > now && until <= now + leaseMs + CLAIM_SLACK_MS)) return undefined;
    this.#claims.set(name, { since, until: now + leaseMs });
    return since;
  }

  async liveGateways(): Promise<ReadonlyMap<string, number>> {
    const now = this.#now();
    return new Map(
      [...this.#gateways].map(([id, until]) => [id, until - now] as const).filter(([, left]) => left > 0),
    );
  }

  async close(): Promise<void> {
    // Nothing is open.
  }

  /** The store's time, for commands that use leases: moves all leases first if the clock was set. */
  #leaseNow(): number {
    const now = this.#now();
    const observed = this.#clockSteps?.observe(now, this.#lastReading);
    this.#lastReading = observed?.reading ?? this.#lastReading;
    if (observed?.step) for (const account of this.#accounts.values()) account.moveLeases(observed.step);
    return now;
  }

  /** Forgets the hashes of some of an account's keys. */
  #dropPointers(account: string, isOne: (key: string) => boolean): void {
    for (const [hash, pointer] of this.#pointers) {
      if (pointer.account === account && isOne(pointer.key)) this.#pointers.delete(hash);
    }
  }

  #open({ account, mustExist }: MakesAccount & { readonly account: string }): MemoryAccount | undefined {
    let rows = this.#accounts.get(account);
    if (!rows && !mustExist) {
      rows = new MemoryAccount();
      rows.totals.lowWater = firstLowWater(this.#deletions.get(account), this.#now());
      this.#accounts.set(account, rows);
    }
    return rows;
  }
}
