import type { Deliveries } from './deliveries.ts';
import { Ghosts, MOST_GHOSTS } from './ghosts.ts';
import {
  type Admit,
  type LedgerStore,
  type Settle,
  type SettleResult,
  StoreUnavailable,
  type Void,
  type VoidResult,
} from '../ledger.ts';
import type { Heard, Listener } from './listener.ts';
import type { OfflineAllowance } from './offline-allowance.ts';
import type { Outbox } from './outbox.ts';
import type { Intent } from './outbox-lines.ts';
import type { Redo } from './redo.ts';
import { postedBy, type RedoWindow, type WatchedAccount } from './redo-window.ts';
import { requestTime } from '../request-ids.ts';
import { askTime, type StoreClock } from '../store-clock.ts';

export interface PostingsOptions {
  readonly store: LedgerStore;
  readonly window: RedoWindow;
  readonly listener: Listener;
  readonly redo: Redo;
  readonly deliveries: Deliveries;
  readonly outbox: Outbox | undefined;
  readonly allowance: OfflineAllowance | undefined;
  readonly clock: StoreClock;
  readonly now: () => number;
}

/** A request id is known to a store for 24 hours: what is older by then could be refused, or be a mystery. */
const POSTABLE_MS = 23 * 60 * 60 * 1000;

/** What became of requests, on its way to the store: in the outbox before it is sent, and repeated until it is answered. */
export class Postings {
  readonly #store: LedgerStore;
  readonly #window: RedoWindow;
  readonly #listener: Listener;
  readonly #redo: Redo;
  readonly #deliveries: Deliveries;
  readonly #outbox: Outbox | undefined;
  readonly #allowance: OfflineAllowance | undefined;
  readonly #clock: StoreClock;
  readonly #now: () => number;
  readonly #remembers: boolean;
  readonly #ghosts = new Ghosts();
  /** By account: what an earlier process left to be posted, and is not yet. */
  readonly #leftovers = new Map<string, Set<Promise<unknown>>>();

  constructor(options: PostingsOptions) {
    this.#store = options.store;
    this.#window = options.window;
    this.#listener = options.listener;
    this.#redo = options.redo;
    this.#deliveries = options.deliveries;
    this.#outbox = options.outbox;
    this.#allowance = options.allowance;
    this.#clock = options.clock;
    this.#now = options.now;
    this.#remembers = options.store.mayRollBack === true;
  }

  /** Begins to post what earlier processes left. */
  open(): void {
    this.#outbox?.open((intent) => this.#deliverLeftover(intent));
  }

  /** What earlier processes left of an account, as promises that are fulfilled once it is posted. */
  leftoversOf(account: string): readonly Promise<unknown>[] {
    return [...(this.#leftovers.get(account) ?? [])];
  }

  /** An admit was given up that may have been applied: its void is tried for as long as its lease. */
  mayHold({ requestId, leaseMs }: Admit): void {
    this.#ghosts.remember(requestId, this.#now() + leaseMs);
  }

  async settle(command: Settle): Promise<SettleResult> {
    this.#outbox?.append({ type: 'settle', command });
    return this.#settle(command);
  }

  async void(command: Void): Promise<VoidResult> {
    const ghostUntil = this.#ghosts.take(command.requestId);
    if (ghostUntil === undefined) this.#outbox?.append({ type: 'void', command });
    return this.#void(command, ghostUntil);
  }

  #deliverLeftover(intent: Intent): void {
    const delivered =
      intent.type === 'settle' ? this.#settle(intent.command, true) : this.#void(intent.command, undefined);
    const { account } = intent.command;
    const leftovers = this.#leftovers.get(account) ?? new Set();
    this.#leftovers.set(account, leftovers.add(delivered));
    delivered
      .catch((error: unknown) => {
        // Closed: it stays in the outbox. Anything else is an intent that no store will ever take.
        if (!(error instanceof StoreUnavailable)) this.#outbox?.giveUp(intent, String(error));
      })
      .finally(() => {
        leftovers.delete(delivered);
        if (leftovers.size === 0) this.#leftovers.delete(account);
      });
  }

  /** @param isLeftover - of a process that is gone: it has admitted the request, and nobody else tells what became of it */
  async #settle(command: Settle, isLeftover = false): Promise<SettleResult> {
    const { account: id, requestId } = command;
    const account = this.#window.watch(id);
    const since = this.#now();
    const { reply, witnesses } = await this.#deliveries.deliver(id, async () => {
      // The id of one of ours may have been made by a clock that was wrong.
      const ageMs = isLeftover ? await this.#ageOf(requestId) : this.#now() - since;
      if (this.#outbox && ageMs > POSTABLE_MS) return this.#tooOld(account);
      const hold = account.holds.get(requestId);
      const inParts = this.#remembers && (isLeftover || this.#redo.isRepairing(account));
      const asked = await this.#redo.ask(
        account,
        (sent) =>
          this.#store.settle({ ...command, wasAdmitted: hold !== undefined, inParts, witnesses: sent }),
        account.nextWitnesses({ ...(hold && { except: hold }) }),
      );
      if (asked.reply.code === 'no_account' && (isLeftover || account.isKnown)) {
        throw this.#listener.lose(account);
      }
      return asked;
    });
    this.#window.release(account, requestId);
    this.#allowance?.giveBack(requestId);
    if (reply.code !== 'ok' && reply.code !== 'duplicate') {
      this.#outbox?.giveUp({ type: 'settle', command }, `the store says ${reply.code}`);
      return reply;
    }
    this.#outbox?.done(requestId);
    if (!this.#remembers) return reply;
    // What was written off is not charged by a repetition; what isn't covered since a rollback is.
    const rest = reply.code === 'ok' ? command.amount - reply.charged - reply.writtenOff : 0n;
    const repeated = { ...command, amount: reply.charged + rest };
    const change = { type: 'settle' as const, command: repeated, posted: postedBy(reply) };
    this.#redo.record(account, change, witnesses);
    if (rest === 0n) return reply;
    this.#redo.owe(account, change, reply.charged);
    return { ...reply, charged: command.amount };
  }

  #tooOld(account: WatchedAccount): Heard<SettleResult> {
    const reply = { code: 'old' as const, now: this.#clock.now(), seq: account.seq };
    return { reply, rolledBack: false, fell: false, witnesses: [] };
  }

  async #ageOf(requestId: string): Promise<number> {
    if (!this.#clock.isKnown) {
      this.#clock.heard(await this.#listener.hear(() => askTime(this.#store, requestId)));
    }
    return this.#clock.now() - requestTime(requestId);
  }

  async #void(command: Void, ghostUntil: number | undefined): Promise<VoidResult> {
    const { account: id, requestId } = command;
    const account = this.#window.watch(id);
    const crowded = this.#deliveries.waiting >= MOST_GHOSTS;
    const until = ghostUntil !== undefined && crowded ? 0 : ghostUntil;
    const { reply } = await this.#deliveries.deliver(
      id,
      () => this.#redo.ask(account, (witnesses) => this.#store.void({ ...command, witnesses })),
      until,
    );
    const hold = this.#window.release(account, requestId);
    const released = ['ok', 'duplicate', 'planted'].includes(reply.code);
    if (this.#remembers && released) this.#redo.record(account, { type: 'void', command });
    this.#outbox?.done(requestId);
    this.#allowance?.giveBack(requestId);
    if (hold && reply.code === 'planted') void this.#redo.repair(account, reply.seq);
    return reply;
  }
}
