import { type CompactedSums, compactedSums } from '../contract/compacted-sums.ts';
import { type Answer, rejection } from '../../async/answer.ts';
import { RetryQueue, type WaitingCharge } from './retry-queue.ts';
import type { LedgerEvent } from '../contract/events.ts';
import {
  type AccountState,
  type Adjust,
  type AdjustResult,
  type Admit,
  type AdmitResult,
  type Allow,
  type AllowResult,
  type Balance,
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
  type UsageRow,
  type Verify,
  type VerifyResult,
  type Void,
  type VoidResult,
} from '../contract/ledger-store.ts';
import type {
  CreateKey,
  CreateKeyResult,
  EndUserStatus,
  FoundKey,
  KeyRecord,
  KeyStatus,
  RotateKey,
  RotateKeyResult,
  UpdateKey,
  UpdateKeyResult,
} from '../contract/key-records.ts';
import { Admissions } from './admissions.ts';
import { Outbox } from './outbox.ts';
import type { OutboxFiles } from './outbox-files.ts';
import { StoreCaller, StoreHealth } from './store-caller.ts';
import { Postings } from './postings.ts';
import { RollbackRepair } from './rollback-repair.ts';
import { Replayer } from './replayer.ts';
import { UnpaidCharges } from './unpaid-charges.ts';
import { OperatorChanges } from './operator-changes.ts';
import { RedoLog, type WatchedAccount } from './redo-log.ts';
import { monotonicClock, StoreClock } from '../contract/store-clock.ts';

export interface ReliableStoreOptions {
  /** Closed with this one. */
  readonly store: LedgerStore;
  readonly tell: (event: LedgerEvent) => void;
  /** Called once of a request whose end has to wait, with why the store that loses nothing didn't take it. */
  readonly onError?: (error: Error, requestId: string) => void;
  /** Where settlements are kept until they are posted; without it they are in memory alone. */
  readonly outbox?: OutboxFiles;
  /** @default Date.now */
  readonly now?: () => number;
  /** Learns from every reply. */
  readonly clock?: StoreClock;
}

/**
 * Adds retries and replay to a store that can be unavailable or lose acknowledged writes. It wraps every store.
 *
 * `settle` and `void` resolve once they were answered, however long that takes: before they
 * are sent they are in the outbox, where there is one, and they reject only when this is closed.
 * An admit that was given up and may have been applied is voided. Of a store that may go back in time, what was
 * acknowledged in the last minute is remembered, and applied again to an account that lost it.
 * While the store is unavailable, or the outbox can't be written, nothing is admitted.
 */
export class ReliableStore implements LedgerStore {
  /** Undefined of a store without it. */
  readonly claim?: NonNullable<LedgerStore['claim']>;
  readonly #store: LedgerStore;
  readonly #health: StoreHealth;
  readonly #deliveries: RetryQueue;
  readonly #window: RedoLog;
  readonly #listener: StoreCaller;
  readonly #redo: RollbackRepair;
  readonly #unpaid: UnpaidCharges;
  readonly #changes: OperatorChanges;
  readonly #outbox: Outbox | undefined;
  readonly #postings: Postings;
  readonly #admissions: Admissions;
  readonly #clock: StoreClock;
  #started = false;
  #closed: Promise<void> | undefined;

  constructor({ store, tell, onError = () => {}, outbox, now = Date.now, clock }: ReliableStoreOptions) {
    this.#store = store;
    this.#clock = clock ?? new StoreClock(now);
    this.#health = new StoreHealth({
      now,
      tell,
      onBack: () => {
        this.#deliveries.wake();
        this.#redo.storeChanged();
      },
    });
    const steadyNow = monotonicClock(now);
    this.#deliveries = new RetryQueue({
      now: steadyNow,
      onGrowth: (waiting, oldestMs) => tell({ type: 'outbox_growth', waiting, oldestMs }),
    });
    this.#window = new RedoLog(steadyNow, { forgetsAccounts: store.mayRollBack !== true && !outbox });
    this.#listener = new StoreCaller({
      store,
      window: this.#window,
      health: this.#health,
      clock: this.#clock,
      tell,
      onLoss: () => this.#redo.storeChanged(),
      onRollback: (account, result) => this.#redo.wentBack(account, result),
    });
    const claim = store.claim?.bind(store);
    if (claim) this.claim = (...terms) => this.#listener.call(() => claim(...terms));
    const repetitions = new Replayer(store, this.#window, this.#listener);
    this.#unpaid = new UnpaidCharges({
      window: this.#window,
      repetitions,
      tell,
      now: steadyNow,
      onWaiting: (command) => this.#outbox?.append({ type: 'settle', command }),
      onDone: (requestId) => this.#outbox?.done(requestId),
      onLost: (account) => void this.#redo.repair(account, account.seq),
    });
    this.#redo = new RollbackRepair({
      repetitions,
      unpaid: this.#unpaid,
      window: this.#window,
      health: this.#health,
      listener: this.#listener,
      tell,
      now: steadyNow,
    });
    this.#changes = new OperatorChanges({
      store,
      window: this.#window,
      listener: this.#listener,
      redo: this.#redo,
      clock: this.#clock,
    });
    this.#outbox = outbox && new Outbox({ files: outbox, now, tell });
    this.#postings = new Postings({
      store,
      window: this.#window,
      listener: this.#listener,
      redo: this.#redo,
      unpaid: this.#unpaid,
      deliveries: this.#deliveries,
      outbox: this.#outbox,
      clock: this.#clock,
      tell,
      onError,
      now: steadyNow,
    });
    this.#admissions = new Admissions({
      mayRollBack: store.mayRollBack === true,
      window: this.#window,
      listener: this.#listener,
      redo: this.#redo,
      deliveries: this.#deliveries,
      postings: this.#postings,
      outbox: this.#outbox,
    });
  }

  /** What is not posted when this is closed is on disk, and the next start posts it. */
  get keepsWhatWaits(): boolean {
    return this.#outbox !== undefined && this.#outbox.failure === undefined;
  }

  /** Why the outbox can't be written; undefined while it can, and without one. */
  get outboxFailure(): Error | undefined {
    return this.#outbox?.failure;
  }

  /** Those of the outbox included. */
  get waitingCharges(): number {
    return this.#deliveries.waiting;
  }

  listWaiting(max: number): WaitingCharge[] {
    return this.#deliveries.list(max);
  }

  async ready(): Promise<void> {
    this.#start();
    await this.#listener.call(async () => this.#store.ready?.());
  }

  /** Rejects, and never throws. */
  admit(command: Admit): Answer<AdmitResult> {
    try {
      this.#start();
      return this.#admissions.admit(command);
    } catch (error) {
      return rejection(error);
    }
  }

  /** Throws or rejects as the store does. */
  extend(command: Extend): Answer<ExtendResult> {
    return this.#admissions.extend(command);
  }

  /** Rejects, and never throws. */
  settle(command: Settle): Answer<SettleResult> {
    try {
      this.#start();
      return this.#postings.settle(command);
    } catch (error) {
      return rejection(error);
    }
  }

  /** Rejects, and never throws. */
  void(command: Void): Answer<VoidResult> {
    try {
      this.#start();
      return this.#postings.void(command);
    } catch (error) {
      return rejection(error);
    }
  }

  async grant(command: Grant): Promise<GrantResult> {
    this.#start();
    return this.#changes.grant(command);
  }

  async adjust(command: Adjust): Promise<AdjustResult> {
    this.#start();
    return this.#changes.adjust(command);
  }

  async refund(command: Refund): Promise<RefundResult> {
    this.#start();
    return this.#changes.refund(command);
  }

  async setFloor(command: SetFloor): Promise<SetFloorResult> {
    return this.#changes.setFloor(command);
  }

  async allow(command: Allow): Promise<AllowResult> {
    this.#start();
    return this.#changes.allow(command);
  }

  async endAllowance(command: EndAllowance): Promise<EndAllowanceResult> {
    return this.#changes.endAllowance(command);
  }

  async deleteAccount(account: string): Promise<DeleteAccountResult> {
    return this.#changes.deleteAccount(account);
  }

  deletedAccounts(): AsyncIterable<DeletedAccount> {
    return this.#store.deletedAccounts();
  }

  async verify(command: Verify): Promise<VerifyResult> {
    return this.#listener.call(() => this.#store.verify(command));
  }

  async createKey(command: CreateKey): Promise<CreateKeyResult> {
    return this.#changes.createKey(command);
  }

  updateKey(command: UpdateKey): Promise<UpdateKeyResult> {
    return this.#changes.updateKey(command);
  }

  rotateKey(command: RotateKey): Promise<RotateKeyResult> {
    return this.#changes.rotateKey(command);
  }

  async revokeKey(account: string, key: string): Promise<boolean> {
    return this.#changes.revokeKey(account, key);
  }

  async freeze(account: string, frozen: boolean): Promise<boolean> {
    return this.#changes.freeze(account, frozen);
  }

  async balance(id: string): Promise<Balance | undefined> {
    this.#start();
    const account = this.#window.watch(id);
    const { epoch: era } = account;
    const balance = await this.#listener.call(() => this.#store.balance(id));
    if (balance && era === account.epoch) this.#listener.markPresent(account);
    if (!balance && account.isKnown) await this.#assertDeleted(account);
    return balance;
  }

  /** Not retried: the next announcement follows soon. */
  async announceGateway(gateway: string, leaseMs: number): Promise<void> {
    await this.#store.announceGateway?.(gateway, leaseMs);
  }

  async liveGateways(): Promise<ReadonlyMap<string, number>> {
    return (await this.#store.liveGateways?.()) ?? new Map();
  }

  async sweep(budget: number): Promise<number> {
    return this.#listener.call(() => this.#store.sweep(budget));
  }

  async request(account: string, requestId: string): Promise<RequestRecord | undefined> {
    return this.#listener.call(() => this.#store.request(account, requestId));
  }

  async snapshot(account: string): Promise<AccountState | undefined> {
    return this.#listener.call(() => this.#store.snapshot(account));
  }

  async journal(account: string, afterSeq: bigint, limit: number): Promise<readonly JournalLine[]> {
    return this.#listener.call(() => this.#store.journal(account, afterSeq, limit));
  }

  async compact(account: string, seq: bigint): Promise<void> {
    return this.#listener.call(() => this.#store.compact(account, seq));
  }

  async compacted(account: string): Promise<CompactedSums | undefined> {
    return this.#listener.call(() => compactedSums(this.#store, account));
  }

  async usage(...query: Parameters<LedgerStore['usage']>): Promise<readonly UsageRow[]> {
    return this.#listener.call(() => this.#store.usage(...query));
  }

  async usageBy(...query: Parameters<LedgerStore['usageBy']>): Promise<readonly DimensionRow[]> {
    return this.#listener.call(() => this.#store.usageBy(...query));
  }

  async compactUsage(account: string, beforeDay: string): Promise<void> {
    return this.#listener.call(() => this.#store.compactUsage(account, beforeDay));
  }

  async prune(account: string): Promise<number> {
    return this.#listener.call(() => this.#store.prune(account));
  }

  accounts(): AsyncIterable<string> {
    return this.#store.accounts();
  }

  async findKey(hash: string): Promise<FoundKey | undefined> {
    this.#start();
    return this.#listener.call(() => this.#store.findKey(hash));
  }

  async keyState(account: string, key: string): Promise<KeyStatus | undefined> {
    this.#start();
    return this.#listener.call(() => this.#store.keyState(account, key));
  }

  async endUserState(account: string, endUser: string, key?: string): Promise<EndUserStatus | undefined> {
    this.#start();
    return this.#listener.call(() => this.#store.endUserState(account, endUser, key));
  }

  async keys(account: string): Promise<readonly KeyRecord[]> {
    return this.#listener.call(() => this.#store.keys(account));
  }

  /** Gives up what waits, which stays in the outbox where there is one, and closes the store. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#deliveries.close();
    this.#redo.close();
    this.#unpaid.close(this.#window.watched(), this.keepsWhatWaits);
    this.#health.close();
    await this.#outbox?.close();
    await this.#store.close();
  }

  #start(): void {
    if (this.#started || this.#closed) return;
    this.#started = true;
    this.#postings.open();
  }

  /** @throws {AccountLostError} if an account that was known is missing, and was not deleted */
  async #assertDeleted(account: WatchedAccount): Promise<void> {
    const command = { account: account.id, witnesses: [] };
    const { reply, isCurrent } = await this.#listener.callAccount(account, 'verify', command, { traces: [] });
    if (reply.code !== 'no_account' || reply.deleted) return;
    throw this.#listener.markMissing(account, isCurrent);
  }
}
