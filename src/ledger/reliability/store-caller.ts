import type { LedgerEvent } from '../contract/events.ts';
import { AccountLost, type LedgerStore, StoreUnavailable, type Witness } from '../contract/ledger-store.ts';
import { type RedoWindow, type Trace, type WatchedAccount, witnessOf } from './redo-log.ts';
import type { At } from '../contract/reply.ts';
import type { StoreClock } from '../contract/store-clock.ts';
import type { StoreHealth } from './store-health.ts';

export interface ListenerOptions {
  readonly store: LedgerStore;
  readonly window: RedoWindow;
  readonly health: StoreHealth;
  readonly clock: StoreClock;
  readonly tell: (event: LedgerEvent) => void;
  /** Called when another server may have taken the place of the one before. */
  readonly onLoss: () => void;
}

/** A reply, and what it says of the account's past. */
export interface Heard<Reply> {
  readonly reply: Reply;
  /** What was acknowledged before the command was sent is missing, and this is the first reply to say so. */
  readonly rolledBack: boolean;
  /** The journal is shorter than it was when the command was sent: another process's changes were lost, perhaps ours too. */
  readonly fell: boolean;
  /** What was sent as witnesses, and is there. */
  readonly witnesses: readonly Trace[];
  /** Since it was sent, the account was not found to have lost anything, nor to be lost. */
  readonly isCurrent: boolean;
}

/** Sends commands, and learns from the answers how the store and its accounts are. */
export class Listener {
  readonly #options: ListenerOptions;
  #losses: number;

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#losses = options.store.losses ?? 0;
  }

  /** Counts the times at which another server may have come. */
  get losses(): number {
    return this.#losses;
  }

  /** Sends a command with what must be there if the account has lost nothing. */
  async ask<Reply extends At & { readonly code: string }>(
    account: WatchedAccount,
    send: (witnesses: readonly Witness[]) => Promise<Reply>,
    traces: readonly Trace[] = account.nextWitnesses(),
  ): Promise<Heard<Reply>> {
    const { era, seq } = account;
    const reply = await this.hear(() => send(traces.map(witnessOf)));
    this.#options.clock.heard(reply.now);
    const isMissing = reply.rolledBack === true || reply.code === 'rolled_back';
    const isCurrent = era === account.era;
    const rolledBack = isMissing && isCurrent;
    const fell = !isMissing && isCurrent && reply.seq < seq;
    if (isCurrent) {
      if (!isMissing && (fell || reply.seq > account.seq)) account.seq = reply.seq;
      // An account that has a key alone has no line in its journal.
      if (reply.seq > 0n || reply.code === 'ok') this.saw(account);
    }
    return { reply, rolledBack, fell, witnesses: isMissing ? [] : traces, isCurrent };
  }

  /** Sends a command, and learns from it whether the store answers. */
  async hear<Reply>(send: () => Promise<Reply>): Promise<Reply> {
    const { health } = this.#options;
    try {
      const reply = await send();
      this.countLosses();
      health.answered();
      return reply;
    } catch (error) {
      this.countLosses();
      if (error instanceof StoreUnavailable) health.failed(error);
      throw error;
    }
  }

  countLosses(): void {
    const { store, onLoss } = this.#options;
    const { losses = 0 } = store;
    if (losses === this.#losses) return;
    this.#losses = losses;
    onLoss();
  }

  /** It is in the store. */
  saw(account: WatchedAccount): void {
    account.isKnown = true;
    account.lost = false;
  }

  /**
   * A known account isn't there any more: what was acknowledged must not make it again.
   *
   * @param isCurrent - of the answer that says so: a late one says nothing of an account that was made again since
   */
  lose(account: WatchedAccount, isCurrent: boolean): AccountLost {
    const { window, tell } = this.#options;
    if (!account.lost && isCurrent) {
      account.isKnown = true;
      account.lost = true;
      account.era += 1;
      account.seq = 0n;
      window.clear(account);
      tell({ type: 'account_lost', account: account.id });
    }
    return new AccountLost(account.id);
  }
}
