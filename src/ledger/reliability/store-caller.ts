import type { LedgerEvent } from '../contract/events.ts';
import {
  AccountLostError,
  type LedgerStore,
  StoreUnavailableError,
  type Witness,
} from '../contract/ledger-store.ts';
import { type RedoLog, type Trace, type WatchedAccount, witnessOf } from './redo-log.ts';
import type { ReplyMeta } from '../contract/reply.ts';
import type { StoreClock } from '../contract/store-clock.ts';
import type { StoreHealth } from './store-health.ts';

export interface StoreCallerOptions {
  readonly store: LedgerStore;
  readonly window: RedoLog;
  readonly health: StoreHealth;
  readonly clock: StoreClock;
  readonly tell: (event: LedgerEvent) => void;
  /** Called when another server may have taken the place of the one before. */
  readonly onLoss: () => void;
}

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

/** Sends commands, and learns from the answers how the store and its accounts are. */
export class StoreCaller {
  readonly #options: StoreCallerOptions;
  #losses: number;

  constructor(options: StoreCallerOptions) {
    this.#options = options;
    this.#losses = options.store.connectionLosses ?? 0;
  }

  /** Counts the times at which another server may have come. */
  get losses(): number {
    return this.#losses;
  }

  /** Sends a command with what must be there if the account has lost nothing. */
  async callAccount<Reply extends ReplyMeta & { readonly code: string }>(
    account: WatchedAccount,
    send: (witnesses: readonly Witness[]) => Promise<Reply>,
    traces: readonly Trace[] = account.nextWitnesses(),
  ): Promise<CallResult<Reply>> {
    const { epoch: era, seq } = account;
    const reply = await this.call(() => send(traces.map(witnessOf)));
    this.#options.clock.sync(reply.now);
    const isMissing = reply.rolledBack === true || reply.code === 'rolled_back';
    const isCurrent = era === account.epoch;
    const rolledBack = isMissing && isCurrent;
    const fell = !isMissing && isCurrent && reply.seq < seq;
    if (isCurrent) {
      if (!isMissing && (fell || reply.seq > account.seq)) account.seq = reply.seq;
      // An account that has a key alone has no line in its journal.
      if (reply.seq > 0n || reply.code === 'ok') this.markPresent(account);
    }
    return { reply, rolledBack, wentBack: fell, witnesses: isMissing ? [] : traces, isCurrent };
  }

  /** Sends a command, and learns from it whether the store answers. */
  async call<Reply>(send: () => Promise<Reply>): Promise<Reply> {
    const { health } = this.#options;
    try {
      const reply = await send();
      this.countLosses();
      health.answered();
      return reply;
    } catch (error) {
      this.countLosses();
      if (error instanceof StoreUnavailableError) health.failed(error);
      throw error;
    }
  }

  countLosses(): void {
    const { store, onLoss } = this.#options;
    const { connectionLosses: losses = 0 } = store;
    if (losses === this.#losses) return;
    this.#losses = losses;
    onLoss();
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
}
