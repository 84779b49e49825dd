import { type Answer, isLater } from '../../async/answer.ts';
import type { LedgerEvent } from '../contract/events.ts';
import type {
  CreateKey,
  CreateKeyResult,
  RotateKey,
  RotateKeyResult,
  UpdateKey,
  UpdateKeyResult,
} from '../contract/key-records.ts';
import {
  AccountLostError,
  type Adjust,
  type AdjustResult,
  type Admit,
  type AdmitResult,
  type Allow,
  type AllowResult,
  type EndAllowance,
  type EndAllowanceResult,
  type Extend,
  type ExtendResult,
  type Grant,
  type GrantResult,
  type LedgerStore,
  type Refund,
  type RefundResult,
  type SetFloor,
  type SetFloorResult,
  type Settle,
  type SettleResult,
  StoreUnavailableError,
  type Verify,
  type VerifyResult,
  type Void,
  type VoidResult,
} from '../contract/ledger-store.ts';
import { type RedoLog, type Trace, type WatchedAccount, witnessOf } from './redo-log.ts';
import type { ReplyMeta } from '../contract/reply.ts';
import type { StoreClock } from '../contract/store-clock.ts';

export interface StoreCallerOptions {
  readonly store: LedgerStore;
  readonly window: RedoLog;
  readonly health: StoreHealth;
  readonly clock: StoreClock;
  readonly tell: (event: LedgerEvent) => void;
  /** Called when another server may have taken the place of the one before, with the next answer or failure. */
  readonly onLoss: () => void;
  /** Called with a reply that says that its account went back in time, or may have. */
  readonly onRollback: (account: WatchedAccount, result: CallResult<ReplyMeta>) => void;
}

/** Commands of an account whose replies say how it is. */
export interface AccountCommands {
  readonly admit: { readonly command: Admit; readonly reply: AdmitResult };
  readonly extend: { readonly command: Extend; readonly reply: ExtendResult };
  readonly settle: { readonly command: Settle; readonly reply: SettleResult };
  readonly void: { readonly command: Void; readonly reply: VoidResult };
  readonly grant: { readonly command: Grant; readonly reply: GrantResult };
  readonly adjust: { readonly command: Adjust; readonly reply: AdjustResult };
  readonly refund: { readonly command: Refund; readonly reply: RefundResult };
  readonly setFloor: { readonly command: SetFloor; readonly reply: SetFloorResult };
  readonly allow: { readonly command: Allow; readonly reply: AllowResult };
  readonly endAllowance: { readonly command: EndAllowance; readonly reply: EndAllowanceResult };
  readonly verify: { readonly command: Verify; readonly reply: VerifyResult };
  readonly createKey: { readonly command: CreateKey; readonly reply: CreateKeyResult };
  readonly updateKey: { readonly command: UpdateKey; readonly reply: UpdateKeyResult };
  readonly rotateKey: { readonly command: RotateKey; readonly reply: RotateKeyResult };
}

type AccountStore = {
  readonly [Name in keyof AccountCommands]: (
    command: AccountCommands[Name]['command'],
  ) => Answer<AccountCommands[Name]['reply']>;
};

/** A reply, and what it says of the account's past. */
export interface CallResult<Reply> {
  readonly reply: Reply;
  /** What was acknowledged before the command was sent is missing, and this is the first reply to say so. */
  readonly rolledBack: boolean;
  /** The journal is shorter than it was when the command was sent: another process's changes were lost, perhaps ours too. */
  readonly wentBack: boolean;
  /** What was sent as witnesses, and is there. */
  readonly witnesses: readonly Trace[];
  /** Since it was sent, the account was not found to have lost anything, nor to be lost. */
  readonly isCurrent: boolean;
}

type AccountReply = AccountCommands[keyof AccountCommands]['reply'];

/** A command that was sent, and how its account was then. */
interface SentCommand {
  readonly account: WatchedAccount;
  readonly epoch: number;
  readonly seq: bigint;
  readonly traces: readonly Trace[];
  readonly isRepair: boolean;
}

/** Sends commands, and learns from the answers how the store and its accounts are. */
export class StoreCaller {
  readonly #options: StoreCallerOptions;
  readonly #store: AccountStore;
  #losses = 0;
  #lossesReported = 0;

  constructor(options: StoreCallerOptions) {
    this.#options = options;
    this.#store = options.store;
    options.store.onConnectionLost?.(() => {
      this.#losses += 1;
    });
  }

  /** How often another server may have come. */
  get losses(): number {
    return this.#losses;
  }

  /**
   * Sends a command with what must be there if the account has lost nothing.
   *
   * @param options.isRepair - what the reply says of a rollback is judged by the caller
   */
  callAccount<Name extends keyof AccountCommands>(
    account: WatchedAccount,
    name: Name,
    command: AccountCommands[Name]['command'],
    {
      traces = account.nextWitnesses(),
      isRepair = false,
    }: { readonly traces?: readonly Trace[]; readonly isRepair?: boolean } = {},
  ): Answer<CallResult<AccountCommands[Name]['reply']>> {
    const { epoch, seq } = account;
    const sent = { account, epoch, seq, traces, isRepair };
    let answer: Answer<AccountCommands[Name]['reply']>;
    try {
      answer = this.#store[name](
        traces.length === 0 ? command : { ...command, witnesses: traces.map(witnessOf) },
      );
    } catch (error) {
      throw this.#failed(error);
    }
    return isLater(answer) ? this.#awaitReply(answer, sent) : this.#replied(answer, sent);
  }

  /** Voids what was admitted to an account that went back in time, and throws. */
  async undo({ account, requestId }: Admit): Promise<never> {
    try {
      await this.call(() => this.#options.store.void({ account, requestId }));
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      throw new StoreUnavailableError('unknown', { cause: error });
    }
    throw new StoreUnavailableError('no', { cause: new Error('the account went back in time') });
  }

  async #awaitReply<Reply extends AccountReply>(
    answer: Promise<Reply>,
    sent: SentCommand,
  ): Promise<CallResult<Reply>> {
    let reply: Reply;
    try {
      reply = await answer;
    } catch (error) {
      throw this.#failed(error);
    }
    return this.#replied(reply, sent);
  }

  #replied<Reply extends AccountReply>(
    reply: Reply,
    { account, epoch, seq, traces, isRepair }: SentCommand,
  ): CallResult<Reply> {
    this.#answered();
    this.#options.clock.sync(reply.now);
    if (reply.deleted) this.#options.window.forget(account);
    const isMissing = reply.rolledBack === true || reply.code === 'rolled_back';
    const isCurrent = epoch === account.epoch;
    const rolledBack = isMissing && isCurrent;
    const wentBack = !isMissing && isCurrent && reply.seq < seq && !reply.deleted;
    if (isCurrent) {
      if (!isMissing && (wentBack || reply.seq > account.seq)) account.seq = reply.seq;
      // An account that has a key alone has no line in its journal.
      if (reply.seq > 0n || reply.code === 'ok') this.markPresent(account);
    }
    const witnesses = isMissing ? [] : traces;
    const result = { reply, rolledBack, wentBack, witnesses, isCurrent };
    if (!isRepair && (rolledBack || wentBack)) this.#options.onRollback(account, result);
    return result;
  }

  /** Sends a command, and learns from it whether the store answers. */
  async call<Reply>(send: () => Answer<Reply>): Promise<Reply> {
    let reply: Reply;
    try {
      reply = await send();
    } catch (error) {
      throw this.#failed(error);
    }
    this.#answered();
    return reply;
  }

  /** Reports losses that were not reported yet. */
  reportLoss(): void {
    if (this.#lossesReported === this.#losses) return;
    this.#lossesReported = this.#losses;
    this.#options.onLoss();
  }

  /** It is in the store. */
  markPresent(account: WatchedAccount): void {
    account.isKnown = true;
    account.lost = false;
  }

  /**
   * A known account isn't there any more: what was acknowledged must not make it again.
   *
   * @param isCurrent - of the answer that says so: a late one says nothing of an account that was made again since
   */
  markMissing(account: WatchedAccount, isCurrent: boolean): AccountLostError {
    const { window, tell } = this.#options;
    if (!account.lost && isCurrent) {
      account.isKnown = true;
      account.lost = true;
      account.epoch += 1;
      account.seq = 0n;
      window.clear(account);
      tell({ type: 'account_lost', account: account.id });
    }
    return new AccountLostError(account.id);
  }
  #answered(): void {
    this.reportLoss();
    this.#options.health.answered();
  }

  #failed(error: unknown): unknown {
    this.reportLoss();
    if (error instanceof StoreUnavailableError) this.#options.health.failed(error);
    return error;
  }
}

export interface StoreHealthOptions {
  readonly now: () => number;
  readonly tell: (event: LedgerEvent) => void;
  /** Called at the first answer after a failure. */
  readonly onBack: () => void;
}

/** A store that fails repeatedly within this time is reported as unavailable. */
const STEADY_MS = 1000;

/** Whether the store answers; operators hear of the changes, however many commands see them. */
export class StoreHealth {
  readonly #options: StoreHealthOptions;
  #failing = false;
  #failedAt = 0;
  /** When the store was reported as unavailable; undefined while it is available. */
  #awaySince: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: StoreHealthOptions) {
    this.#options = options;
  }

  /** The last command got no answer. */
  get failing(): boolean {
    return this.#failing;
  }

  failed(error: StoreUnavailableError): void {
    const { now, tell } = this.#options;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#failedAt = now();
    this.#failing = true;
    if (this.#awaySince !== undefined) return;
    this.#awaySince = this.#failedAt;
    const { cause, message } = error;
    tell({ type: 'store_unavailable', message: cause instanceof Error ? cause.message : message });
  }

  answered(): void {
    if (this.#awaySince === undefined) return;
    if (this.#failing) {
      this.#failing = false;
      this.#options.onBack();
    }
    this.#timer ??= setTimeout(() => this.#steady(), STEADY_MS).unref();
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #steady(): void {
    this.#timer = undefined;
    if (this.#awaySince === undefined) return;
    const awayMs = Math.max(0, this.#failedAt - this.#awaySince);
    this.#awaySince = undefined;
    this.#options.tell({ type: 'store_recovered', awayMs });
  }
}
