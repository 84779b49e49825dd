import { type Answer, andThen, isLater, rejection } from '../../async/answer.ts';
import {
  type Admit,
  type AdmitResult,
  type Extend,
  type ExtendResult,
  StoreUnavailableError,
} from '../contract/ledger-store.ts';
import type { NanoDollars } from '../contract/money.ts';
import type { Outbox } from './outbox.ts';
import type { Postings } from './postings.ts';
import type { RedoLog, WatchedAccount } from './redo-log.ts';
import { inTime, untilRepaired } from './repair-waits.ts';
import type { RetryQueue } from './retry-queue.ts';
import type { RollbackRepair } from './rollback-repair.ts';
import type { CallResult, StoreCaller } from './store-caller.ts';

export interface AdmissionsOptions {
  /** The store may lose what it has acknowledged. */
  readonly mayRollBack: boolean;
  readonly window: RedoLog;
  readonly listener: StoreCaller;
  readonly redo: RollbackRepair;
  readonly deliveries: RetryQueue;
  readonly postings: Postings;
  readonly outbox: Outbox | undefined;
}

/** Witnesses of an admit whose idempotency key may have been charged: a rollback in a burst of requests leaves the newest. */
const MAX_ADMITS_PER_KEY = 16;
/** The number of rollbacks after which an admit is refused. */
const MAX_ROLLBACKS = 3;
/** So much may wait to be posted, until no more is admitted. */
const MAX_WAITING = 100_000;

/** Admits and extends holds. An admit waits while its account is repaired; one without an answer is voided. */
export class Admissions {
  readonly #options: AdmissionsOptions;

  constructor(options: AdmissionsOptions) {
    this.#options = options;
  }

  /** Rejects, and never throws. */
  admit(command: Admit): Answer<AdmitResult> {
    const first = this.#tryFirst(command);
    const isFinal = !isLater(first) && first.code !== 'rolled_back';
    return isFinal ? first : this.#untilAdmitted(command, first);
  }

  /** Throws or rejects as the store does. */
  extend(command: Extend): Answer<ExtendResult> {
    const account = this.#options.window.watch(command.account);
    const first = this.#extend(account, command);
    return andThen(first, (reply) => this.#extended(account, command, reply));
  }

  #tryFirst(command: Admit): Answer<AdmitResult> {
    try {
      this.#assertAdmitting();
      return this.#admit(command);
    } catch (error) {
      return rejection(error);
    }
  }

  #assertAdmitting(): void {
    const { outbox, deliveries } = this.#options;
    const failure = outbox?.failure;
    if (failure) throw new StoreUnavailableError('no', { cause: failure });
    if (deliveries.waiting >= MAX_WAITING) {
      throw new StoreUnavailableError('no', { cause: new Error('too many charges wait to be posted') });
    }
  }

  /** Admits again while the account goes back in time, and voids what may have been admitted without an answer. */
  async #untilAdmitted(command: Admit, first: Answer<AdmitResult>): Promise<AdmitResult> {
    try {
      let reply = await first;
      for (let tries = 1; tries < MAX_ROLLBACKS && reply.code === 'rolled_back'; tries++) {
        reply = await this.#admit(command);
      }
      if (reply.code !== 'rolled_back') return reply;
      throw new StoreUnavailableError('no', {
        cause: new Error('the account went back in time, and is being repaired'),
      });
    } catch (error) {
      if (error instanceof StoreUnavailableError && error.applied === 'unknown') {
        this.#options.postings.voidUncertain(command);
      }
      throw error;
    }
  }

  /** One try; its reply is `rolled_back` if the account has to be repaired first. */
  #admit(command: Admit): Answer<AdmitResult> {
    const account = this.#options.window.watch(command.account);
    const wait = this.#untilWhole(account, command);
    return wait ? this.#sendAfter(wait, account, command) : this.#send(account, command);
  }

  async #sendAfter(wait: Promise<void>, account: WatchedAccount, command: Admit): Promise<AdmitResult> {
    await wait;
    return this.#send(account, command);
  }

  #send(account: WatchedAccount, command: Admit): Answer<AdmitResult> {
    const { epoch } = account;
    const most = command.idempotencyKey ? MAX_ADMITS_PER_KEY : 1;
    const traces = account.nextWitnesses({ most });
    const called = this.#options.listener.callAccount(account, 'admit', command, { traces });
    return isLater(called)
      ? this.#answeredLater(account, command, epoch, called)
      : this.#answered(account, command, epoch, called);
  }

  async #answeredLater(
    account: WatchedAccount,
    command: Admit,
    epoch: number,
    called: Promise<CallResult<AdmitResult>>,
  ): Promise<AdmitResult> {
    return this.#answered(account, command, epoch, await called);
  }

  /** @param epoch - of the account, when the command was sent */
  #answered(
    account: WatchedAccount,
    command: Admit,
    epoch: number,
    { reply, isCurrent }: CallResult<AdmitResult>,
  ): Answer<AdmitResult> {
    const { listener } = this.#options;
    if (reply.code === 'no_account' && account.isKnown) throw listener.markMissing(account, isCurrent);
    if (reply.code !== 'ok' && reply.code !== 'exists') return reply;
    // It may have been judged before the rollback, after it, or during the repair.
    if (account.epoch !== epoch) return listener.undo(command);
    this.#remember(account, command, reply.hold);
    return reply;
  }

  /** Waits until an account that is being repaired has what it lost, for as long as an admit may take; undefined if it has. */
  #untilWhole(account: WatchedAccount, { idempotencyKey }: Admit): Promise<void> | undefined {
    const { redo, postings } = this.#options;
    // One of them may have been charged under this idempotency key.
    const leftovers = idempotencyKey ? postings.leftoversOf(account.id) : undefined;
    const waits = leftovers !== undefined && leftovers.length > 0;
    if (!waits && !account.unpaid && !redo.isRepairing(account)) return undefined;
    return untilRepaired([redo.whole(account), Promise.allSettled(leftovers ?? [])]);
  }

  #remember(account: WatchedAccount, admit: Admit, hold: NanoDollars): void {
    const { requestId, leaseMs } = admit;
    const { mayRollBack, redo } = this.#options;
    if (!mayRollBack || account.holds.has(requestId)) return;
    const extend = { account: account.id, requestId, hold, leaseMs, checkpoint: 0n };
    redo.hold(account, { type: 'hold', admit, extend });
  }

  #extend(account: WatchedAccount, command: Extend): Answer<ExtendResult> {
    const called = this.#options.listener.callAccount(account, 'extend', command);
    return andThen(called, ({ reply }) => {
      const live = account.liveHold(command.requestId);
      if (live && (reply.code === 'ok' || reply.code === 'no_funds')) {
        const { admit } = live;
        this.#options.redo.hold(account, { type: 'hold', admit, extend: { ...command, hold: reply.hold } });
      }
      return reply;
    });
  }

  /** A hold that was lost is made again, and extended. */
  #extended(account: WatchedAccount, command: Extend, reply: ExtendResult): Answer<ExtendResult> {
    const live = account.liveHold(command.requestId);
    if (reply.code !== 'unknown' || !live || account.lost) return reply;
    return inTime(this.#options.redo.repairHold(account, live)).then(() => this.#extend(account, command));
  }
}
