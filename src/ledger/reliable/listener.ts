import type { LedgerEvent } from '../events.ts';
import { type LedgerStore, StoreUnavailable } from '../ledger.ts';
import type { Mark, RedoWindow, WatchedAccount } from './redo-window.ts';
import type { StoreClock } from '../store-clock.ts';
import type { StoreHealth } from './store-health.ts';

export interface ListenerOptions {
  readonly store: LedgerStore;
  readonly window: RedoWindow;
  readonly health: StoreHealth;
  readonly clock: StoreClock;
  readonly tell: (event: LedgerEvent) => void;
}

/** A reply, and whether it is from before what was acknowledged when its command was sent. */
export interface Heard<Reply> {
  readonly reply: Reply;
  readonly fell: boolean;
  readonly mark: Mark;
}

/** Sends commands, and learns from the answers how the store and its accounts are. */
export class Listener {
  readonly #options: ListenerOptions;
  #losses: number;

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#losses = options.store.losses ?? 0;
  }

  /** @param posts - a reply of `ok` has added a line to the journal */
  async ask<Reply extends { readonly code: string; readonly seq: bigint; readonly now: number }>(
    account: WatchedAccount,
    send: () => Promise<Reply>,
    posts = false,
  ): Promise<Heard<Reply>> {
    const { mark } = account;
    const reply = await this.hear(send);
    this.#options.clock.heard(reply.now);
    if (reply.seq > 0n) this.#saw(account);
    // Only what was acknowledged before the command was sent: replies may overtake one another.
    const before = posts && reply.code === 'ok' ? reply.seq - 1n : reply.seq;
    const fell = mark.era === account.era && before < mark.seq;
    if (mark.era === account.era && reply.seq > account.seq) account.seq = reply.seq;
    return { reply, fell, mark };
  }

  /** Sends a command, and learns from it whether the store answers. */
  async hear<Reply>(send: () => Promise<Reply>): Promise<Reply> {
    const { health } = this.#options;
    this.countLosses();
    try {
      const reply = await send();
      health.answered();
      return reply;
    } catch (error) {
      if (error instanceof StoreUnavailable) health.failed(error);
      throw error;
    }
  }

  /** Behind a new connection there may be a server that lacks what was acknowledged. */
  countLosses(): void {
    const { losses = 0 } = this.#options.store;
    if (losses !== this.#losses) this.#options.health.suspected();
    this.#losses = losses;
  }

  #saw(account: WatchedAccount): void {
    account.isKnown = true;
    account.lost = false;
    account.seenOutages = this.#options.health.outages;
  }

  /** Whether an account that was known is not lost; looks where the store was away since it was seen. */
  async isThere(account: WatchedAccount): Promise<boolean> {
    this.countLosses();
    const wasSeen = account.seenOutages === this.#options.health.outages && !account.lost;
    return !account.isKnown || wasSeen || this.exists(account);
  }

  async exists(account: WatchedAccount): Promise<boolean> {
    const balance = await this.hear(() => this.#options.store.balance(account.id));
    if (balance) this.#saw(account);
    else this.lose(account);
    return balance !== undefined;
  }

  /** A known account isn't there any more: what was acknowledged must not make it anew. */
  lose(account: WatchedAccount): void {
    const { window, tell } = this.#options;
    if (account.lost) return;
    account.isKnown = true;
    account.lost = true;
    account.era += 1;
    account.seq = 0n;
    window.clear(account);
    tell({ type: 'account_lost', account: account.id });
  }
}

/** What is refused of an account that was known, and is not there. */
export function gone({ id }: WatchedAccount): StoreUnavailable {
  return new StoreUnavailable('no', { cause: new Error(`account ${id} is not in the store any more`) });
}
