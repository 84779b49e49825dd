import { andThen, type Answer, isLater } from '../../async/answer.ts';
import type { Delivery, RetryQueue } from './retry-queue.ts';
import type { LedgerEvent } from '../contract/events.ts';
import {
  type Admit,
  type LedgerStore,
  type Settle,
  type SettleResult,
  StoreUnavailableError,
  type Void,
  type VoidResult,
} from '../contract/ledger-store.ts';
import type { CallResult, StoreCaller } from './store-caller.ts';
import { formatUsd, larger } from '../contract/money.ts';
import type { Outbox } from './outbox.ts';
import type { Intent } from './outbox-lines.ts';
import type { RollbackRepair } from './rollback-repair.ts';
import { postedBy, type RedoLog, type WatchedAccount } from './redo-log.ts';
import { requestTime } from '../contract/request-ids.ts';
import { fetchStoreTime, type StoreClock } from '../contract/store-clock.ts';
import type { UnpaidCharges } from './unpaid-charges.ts';

export interface PostingsOptions {
  readonly store: LedgerStore;
  readonly window: RedoLog;
  readonly listener: StoreCaller;
  readonly redo: RollbackRepair;
  readonly unpaid: UnpaidCharges;
  readonly deliveries: RetryQueue;
  readonly outbox: Outbox | undefined;
  readonly clock: StoreClock;
  readonly tell: (event: LedgerEvent) => void;
  readonly onError: (error: Error, requestId: string) => void;
  readonly now: () => number;
}

/** The maximum number of uncertain admits that are voided. */
const MAX_UNCERTAIN_ADMITS = 10_000;
/** A request id is known to a store for 24 hours: what is older by then could be refused, or be a mystery. */
const POSTABLE_MS = 23 * 60 * 60 * 1000;

/** What became of requests, on its way to the store: in the outbox before it is sent, and repeated until it is answered. */
export class Postings {
  readonly #options: PostingsOptions;
  readonly #window: RedoLog;
  readonly #listener: StoreCaller;
  readonly #redo: RollbackRepair;
  readonly #unpaid: UnpaidCharges;
  readonly #deliveries: RetryQueue;
  readonly #outbox: Outbox | undefined;
  readonly #tell: (event: LedgerEvent) => void;
  readonly #now: () => number;
  /** By account: what an earlier process left to be posted, and is not yet. */
  readonly #leftovers = new Map<string, Set<Promise<unknown>>>();

  constructor(options: PostingsOptions) {
    this.#options = options;
    this.#window = options.window;
    this.#listener = options.listener;
    this.#redo = options.redo;
    this.#unpaid = options.unpaid;
    this.#deliveries = options.deliveries;
    this.#outbox = options.outbox;
    this.#tell = options.tell;
    this.#now = options.now;
  }

  /** Begins to post what earlier processes left. */
  open(): void {
    this.#outbox?.open((intent) => this.#deliverLeftover(intent));
  }

  /** What earlier processes left of an account, as promises that are fulfilled once it is posted. */
  leftoversOf(account: string): readonly Promise<unknown>[] {
    return [...(this.#leftovers.get(account) ?? [])];
  }

  void(command: Void): Answer<VoidResult> {
    this.#outbox?.append({ type: 'void', command });
    return this.#void(command);
  }

  /**
   * Voids an admit that was given up and may have been applied, for as long as its lease: the void finds it, or plants a
   * tombstone that it will find. Where too much waits already, it is tried once: then the lease ends it.
   */
  voidUncertain({ account, requestId, leaseMs }: Admit): void {
    const isCrowded = this.#deliveries.waiting >= MAX_UNCERTAIN_ADMITS;
    const voided = this.#void({ account, requestId }, isCrowded ? 0 : this.#now() + leaseMs);
    if (isLater(voided)) voided.catch(() => {});
  }

  #deliverLeftover(intent: Intent): void {
    const delivered = Promise.resolve<unknown>(
      intent.type === 'settle' ? this.settle(intent.command, true) : this.#void(intent.command),
    );
    const { account } = intent.command;
    const leftovers = this.#leftovers.get(account) ?? new Set();
    this.#leftovers.set(account, leftovers.add(delivered));
    delivered
      .catch((error: unknown) => {
        // Closed: it stays in the outbox. Anything else is an intent that no store will ever take.
        if (!(error instanceof StoreUnavailableError)) this.#outbox?.giveUp(intent, String(error));
      })
      .finally(() => {
        leftovers.delete(delivered);
        if (leftovers.size === 0) this.#leftovers.delete(account);
      });
  }

  /** @param isLeftover - left by a process that ended: it admitted the request, and no other process knows the outcome */
  settle(command: Settle, isLeftover = false): Answer<SettleResult> {
    if (!isLeftover) this.#outbox?.append({ type: 'settle', command });
    const { account: id } = command;
    const account = this.#window.watch(id);
    const delivery = new SettleDelivery(this.#options, account, command, isLeftover);
    const called = this.#deliveries.deliver(id, delivery);
    return isLater(called)
      ? called.then((result) => this.#settled(account, command, result, delivery))
      : this.#settled(account, command, called, delivery);
  }

  #settled(
    account: WatchedAccount,
    command: Settle,
    { reply, witnesses }: CallResult<SettleResult>,
    { isLeftover, wasSent }: SettleDelivery,
  ): SettleResult {
    const { requestId } = command;
    this.#window.release(account, requestId);
    if (reply.code === 'voided') {
      // The hold's ID took a new hold, which charges the work: a dead letter would have it charged twice.
      this.#outbox?.done(requestId);
      return reply;
    }
    if (reply.code !== 'ok' && reply.code !== 'duplicate') {
      this.#outbox?.giveUp({ type: 'settle', command }, `the store says ${reply.code}`);
      return reply;
    }
    this.#outbox?.done(requestId);
    if (isLeftover && reply.code === 'ok' && reply.writtenOff > 0n) {
      const amount = formatUsd(reply.writtenOff);
      this.#tell({ type: 'write_off', account: account.id, requestId, amount });
    }
    // Where an answer was lost, that command may have posted a part. Another one has nothing to do with this amount.
    const isPart =
      reply.code === 'ok'
        ? reply.charged + reply.writtenOff < command.amount
        : wasSent && reply.isPart === true;
    // What a process that ended has posted, it may have reported.
    const isOwn = wasSent && !isLeftover;
    const told =
      reply.code === 'duplicate' && isOwn
        ? { ...reply, writtenOff: isPart ? 0n : larger(0n, command.amount - reply.charged) }
        : reply;
    if (!mayRollBack(this.#options)) return told;
    // What was written off is not charged by a repetition.
    const repeated = isPart ? command : { ...command, amount: reply.charged };
    const change = { type: 'settle' as const, command: repeated, posted: postedBy(reply) };
    this.#redo.record(account, change, witnesses);
    if (!isPart) return told;
    // The rest is charged later, and counts as charged.
    this.#unpaid.add(account, change, reply.charged);
    return { ...told, charged: command.amount };
  }

  /** @param until - when it is given up */
  #void(command: Void, until?: number): Answer<VoidResult> {
    const { account: id, requestId } = command;
    const account = this.#window.watch(id);
    let { epoch } = account;
    const delivery = {
      requestId,
      send: (): Answer<CallResult<VoidResult>> => {
        ({ epoch } = account);
        return this.#listener.callAccount(account, 'void', command);
      },
      // Of an uncertain admit, whose refusal was reported, the void is not.
      ...(until === undefined
        ? { onWaiting: (error: Error) => reportWaiting(this.#options, requestId, error) }
        : { until }),
    };
    return andThen(this.#deliveries.deliver(id, delivery), ({ reply }) => {
      const hold = this.#window.release(account, requestId);
      const isReleased = ['ok', 'duplicate', 'planted'].includes(reply.code);
      if (mayRollBack(this.#options) && isReleased) this.#redo.record(account, { type: 'void', command });
      this.#outbox?.done(requestId);
      if (hold && reply.code === 'planted') void this.#redo.repair(account, reply.seq, epoch);
      return reply;
    });
  }
}

/** A settlement on its way: what is sent of it, each time that it is tried. */
class SettleDelivery implements Delivery<CallResult<SettleResult>> {
  readonly requestId: string;
  /** Left by a process that ended. */
  readonly isLeftover: boolean;
  readonly #options: PostingsOptions;
  readonly #account: WatchedAccount;
  readonly #command: Settle;
  readonly #since: number;
  #tries = 0;

  constructor(options: PostingsOptions, account: WatchedAccount, command: Settle, isLeftover: boolean) {
    this.requestId = command.requestId;
    this.isLeftover = isLeftover;
    this.#options = options;
    this.#account = account;
    this.#command = command;
    this.#since = options.now();
  }

  /** An earlier try may have been applied. */
  get wasSent(): boolean {
    return this.isLeftover || this.#tries > 1;
  }

  send(): Answer<CallResult<SettleResult>> {
    this.#tries += 1;
    return this.isLeftover ? this.#sendLeftover() : this.#sendAfter(this.#options.now() - this.#since);
  }

  onWaiting(error: Error): void {
    reportWaiting(this.#options, this.requestId, error);
  }

  /** Its age is that of its ID: this process may have made that while its clock was wrong. */
  async #sendLeftover(): Promise<CallResult<SettleResult>> {
    const { store, listener, clock } = this.#options;
    if (!clock.isKnown) clock.sync(await listener.call(() => fetchStoreTime(store, this.requestId)));
    return this.#sendAfter(clock.now() - requestTime(this.requestId));
  }

  #sendAfter(ageMs: number): Answer<CallResult<SettleResult>> {
    const { outbox, redo, listener } = this.#options;
    const account = this.#account;
    const command = this.#command;
    if (outbox && ageMs > POSTABLE_MS) return this.#tooOld();
    const remembers = mayRollBack(this.#options);
    const hold = account.liveHold(command.requestId);
    const wasAdmitted = hold !== undefined || (this.isLeftover && remembers);
    const inParts = remembers && redo.mayLackCredits(account);
    const sent = wasAdmitted || inParts ? { ...command, wasAdmitted, inParts } : command;
    const traces = account.nextWitnesses(hold && { except: hold });
    const called = listener.callAccount(account, 'settle', sent, { traces });
    return isLater(called) ? called.then((result) => this.#checked(result)) : this.#checked(called);
  }

  /** @throws {AccountLostError} if the account is gone, and was not deleted: of one that was, nothing will ever be charged */
  #checked(called: CallResult<SettleResult>): CallResult<SettleResult> {
    const { reply, isCurrent } = called;
    const isGone = reply.code === 'no_account' && !reply.deleted;
    if (isGone && (this.isLeftover || this.#account.isKnown)) {
      throw this.#options.listener.markMissing(this.#account, isCurrent);
    }
    return called;
  }

  #tooOld(): CallResult<SettleResult> {
    const reply = { code: 'old' as const, now: this.#options.clock.now(), seq: this.#account.seq };
    return { reply, rolledBack: false, wentBack: false, witnesses: [], isCurrent: true };
  }
}

/**
 * Reports why the settlement of a request has to wait. For a store on another machine its health is reported
 * instead; for any other store each failure is.
 */
function reportWaiting(options: PostingsOptions, requestId: string, error: Error): void {
  if (!mayRollBack(options)) options.onError(error, requestId);
}

/** The store may lose what it has acknowledged: what was posted is remembered. */
function mayRollBack({ store }: PostingsOptions): boolean {
  return store.mayRollBack === true;
}
