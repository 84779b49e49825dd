import { Deliveries } from './deliveries.ts';
import type { LedgerEvent } from '../events.ts';
import { type LedgerStore, StoreUnavailable } from '../ledger.ts';
import { gone, type Heard, type Listener } from './listener.ts';
import { formatUsd, type NanoDollars } from '../money.ts';
import type { Change, LiveHold, Mark, RedoWindow, WatchedAccount } from './redo-window.ts';
import { leavesNoTrace, type Repetition, Repetitions } from './repetitions.ts';
import type { StoreHealth } from './store-health.ts';

export interface RedoOptions {
  readonly store: LedgerStore;
  readonly window: RedoWindow;
  readonly health: StoreHealth;
  readonly listener: Listener;
  readonly tell: (event: LedgerEvent) => void;
  readonly now: () => number;
}

/** How often an account that has something in the window is looked at, though nobody uses it. */
const CHECK_AFTER_MS = 20_000;
const TICK_MS = 5000;
const MOST_CHECKS_A_TICK = 250;
/** Checks, and repetitions of one kind for one account, that run at once. */
const AT_ONCE = 16;

/**
 * Finds out that an account went back in time, and applies again what it lost.
 *
 * A rollback shows in a journal position that is lower than one that was
 * acknowledged, or, where others have written since, in the newest change that
 * was acknowledged: its line is not where it was. All that is in the window is
 * then repeated; the ids keep what was not lost from being applied twice.
 *
 * The newest is looked at after every outage, before anything is admitted, and now
 * and then. Lost holds and voids leave the position as it is: without an outage to be
 * noticed, a hold's next renewal finds it, and the voids are looked at with the newest.
 */
export class Redo {
  readonly #options: RedoOptions;
  readonly #listener: Listener;
  readonly #repetitions: Repetitions;
  readonly #deliveries: Deliveries;
  readonly #repairs = new Map<WatchedAccount, Repair>();
  readonly #checks = new Map<WatchedAccount, Promise<void>>();
  #checkingAll = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: RedoOptions) {
    this.#options = options;
    this.#listener = options.listener;
    this.#repetitions = new Repetitions(options.store, options.window, options.listener);
    this.#deliveries = new Deliveries({ now: options.now, onGrowth: () => {} });
  }

  /**
   * Sends a command, once its account was looked at if that can be; says whether its reply is from before what was acknowledged.
   *
   * @param posts - a reply of `ok` has added a line to the journal
   */
  async ask<Reply extends { readonly code: string; readonly seq: bigint; readonly now: number }>(
    account: WatchedAccount,
    send: () => Promise<Reply>,
    posts = false,
  ): Promise<Heard<Reply>> {
    try {
      await this.trust(account);
    } catch (error) {
      // The store may take charges though it takes nothing else, as when its memory is full.
      if (!(error instanceof StoreUnavailable)) throw error;
    }
    return this.#listener.ask(account, send, posts);
  }

  /** Sends what says whether there is a key. One that was made, and is lost, is made again first: nobody would tell it later. */
  async askOfKey(
    account: WatchedAccount,
    key: string,
    send: () => Promise<boolean>,
  ): Promise<{ readonly known: boolean; readonly mark: Mark }> {
    let { mark } = account;
    let known = await this.#listener.hear(send);
    if (!known && this.#options.window.hasMade(account, key)) {
      await this.repair(account, account.seq, { isCertain: false });
      ({ mark } = account);
      known = await this.#listener.hear(send);
    }
    return { known, mark };
  }

  record(account: WatchedAccount, change: Change, mark: Mark, wasMade?: boolean): void {
    this.#begin(account);
    this.#options.window.record(account, change, wasMade);
    this.#doubt(account, change, mark);
  }

  hold(account: WatchedAccount, hold: LiveHold, mark: Mark): void {
    this.#begin(account);
    this.#options.window.hold(account, hold);
    this.#doubt(account, hold, mark);
  }

  /** The request ended: returns what its hold was. */
  release(account: WatchedAccount, requestId: string): LiveHold | undefined {
    const { window, health } = this.#options;
    const toTell = new Set([...account.suspects, account.newest]);
    const hold = window.release(account, requestId);
    const wasToTell = hold !== undefined && toTell.has(hold);
    if (wasToTell && account.checkedOutages !== health.outages) account.isUnsure = true;
    return hold;
  }

  /** Resolves once an account can be believed: since the store was away, it was found to have everything. */
  async trust(account: WatchedAccount): Promise<void> {
    await this.#repairs.get(account)?.done;
    this.#listener.countLosses();
    if (account.hasTraces && !this.#wasChecked(account)) await this.#check(account);
  }

  /** Applies again what the account may have lost. */
  repair(
    account: WatchedAccount,
    found: bigint,
    { expected = account.seq, reapplied = 0, isCertain = true }: Partial<Evidence> = {},
  ): Promise<void> {
    account.era += 1;
    account.seq = found;
    const running = this.#repairs.get(account);
    const repair = running ?? {
      again: true,
      found: undefined,
      isTold: false,
      reapplied: 0,
      done: Promise.resolve(),
    };
    repair.again = true;
    repair.reapplied += reapplied;
    if (isCertain) repair.found ??= { expected, found };
    if (running) return running.done;
    this.#repairs.set(account, repair);
    repair.done = this.#repair(account, repair).finally(() => {
      if (this.#repairs.get(account) === repair) this.#repairs.delete(account);
    });
    // Who waits for it hears of it; it fails only by being closed.
    repair.done.catch(() => {});
    return repair.done;
  }

  /** Before what makes an account where there is none: makes none anew that is lost. */
  async assertNotLost(account: WatchedAccount): Promise<void> {
    await this.trust(account);
    if (!(await this.#listener.isThere(account))) throw gone(account);
  }

  /** What a rollback can have taken from an account's charges, at most. */
  mayHaveLost(account: WatchedAccount): NanoDollars {
    let sum = 0n;
    for (const change of account.changes.keys()) if (change.type === 'settle') sum += change.command.amount;
    return sum;
  }

  /** The store answers again, and may be another: every account is looked at. */
  storeIsBack(): void {
    this.#deliveries.wake();
    const { window } = this.#options;
    void this.#checkAll([...window.watched()].filter((account) => !this.#wasChecked(account)));
  }

  close(): void {
    clearInterval(this.#timer);
    this.#deliveries.close();
  }

  #begin(account: WatchedAccount): void {
    this.#listener.countLosses();
    const { health, now } = this.#options;
    if (!account.hasTraces) {
      account.checkedAt = now();
      account.checkedOutages = health.outages;
    }
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS).unref();
  }

  /** What was acknowledged by what is the past now may be lost, and a repair may have missed it. */
  #doubt(account: WatchedAccount, acknowledged: Change | LiveHold, mark: Mark): void {
    if (mark.era === account.era) return;
    account.suspects.add(acknowledged);
    const repair = this.#repairs.get(account);
    if (repair) repair.again = true;
  }

  /** Since the store was away, the account was found to have everything. */
  #wasChecked({ checkedOutages, suspects }: WatchedAccount): boolean {
    return checkedOutages === this.#options.health.outages && suspects.size === 0;
  }

  #tick(): void {
    const { window, health, now } = this.#options;
    this.#listener.countLosses();
    window.expire((account) => this.#wasChecked(account) && !this.#repairs.has(account));
    const idle: WatchedAccount[] = [];
    let watched = 0;
    for (const account of window.watched()) {
      watched += 1;
      const due = !this.#wasChecked(account) || now() - account.checkedAt >= CHECK_AFTER_MS;
      if (due && idle.length < MOST_CHECKS_A_TICK) idle.push(account);
    }
    if (watched === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    // One of them finds out whether the store is back, though nobody else asks it anything.
    void this.#checkAll(health.failing ? idle.slice(0, 1) : idle);
  }

  async #checkAll(accounts: readonly WatchedAccount[]): Promise<void> {
    if (this.#checkingAll) return;
    this.#checkingAll = true;
    try {
      await inTurn(accounts, async (account) => {
        if (account.hasTraces && !this.#repairs.has(account)) await this.#check(account);
      });
    } catch {
      // The store is away again: its return begins anew.
    } finally {
      this.#checkingAll = false;
    }
  }

  #check(account: WatchedAccount): Promise<void> {
    let check = this.#checks.get(account);
    if (!check) {
      check = this.#look(account).finally(() => this.#checks.delete(account));
      this.#checks.set(account, check);
    }
    return check;
  }

  /** Looks for what was acknowledged last, which is the first to be lost, and for what leaves no trace when it is. */
  async #look(account: WatchedAccount): Promise<void> {
    const { health, now } = this.#options;
    const { newest, suspects, checkedAt } = account;
    const { outages } = health;
    const startedAt = now();
    const looked = new Set([...suspects, newest]);
    for (const { at, change, wasMade } of account.changes.values()) {
      // Another process may have thawed what this one froze: that is frozen again with cause alone.
      const isNew = change.type !== 'freeze' && at >= checkedAt;
      const hasCause = isNew || account.checkedOutages !== outages;
      if (hasCause && (leavesNoTrace(change) || !wasMade)) looked.add(change);
    }
    for (const change of looked) {
      if (!change) continue;
      const { seq: expected, era } = account;
      const { lost, reapplied, fell, found } = await this.#repetitions.find(account, change);
      if (account.lost) return;
      if (!lost && !fell) continue;
      // Somebody else may have seen the same meanwhile.
      const isCertain = era === account.era;
      return this.repair(account, found, { expected, isCertain, reapplied: reapplied ? 1 : 0 });
    }
    if (account.isUnsure) return this.repair(account, account.seq, { isCertain: false });
    this.#passed(account, outages, startedAt, looked);
  }

  async #repair(account: WatchedAccount, repair: Repair): Promise<void> {
    const { tell, health, now } = this.#options;
    while (repair.again) {
      repair.again = false;
      const { outages } = health;
      const startedAt = now();
      const suspects = new Set(account.suspects);
      if (!(await this.#deliver(account, () => this.#listener.exists(account)))) return;
      for (const changes of inOrderOfRepetition(account)) {
        await inTurn(changes, (change) =>
          this.#deliver(account, () => this.#repeat(account, change, repair)),
        );
      }
      this.#tellOf(account, repair);
      if (account.lost) return;
      if (repair.again) continue;
      account.isUnsure = false;
      this.#passed(account, outages, startedAt, suspects);
    }
    this.#repairs.delete(account);
    const { isTold, reapplied } = repair;
    if (isTold) tell({ type: 'rollback_repaired', account: account.id, reapplied });
  }

  async #repeat(account: WatchedAccount, change: Change | LiveHold, repair: Repair): Promise<void> {
    this.#tellOf(account, repair);
    const take = ({ lost, fell, found }: Repetition, expected: bigint): void => {
      if (fell) void this.repair(account, found, { expected });
      else if (lost) repair.found ??= { expected, found };
      this.#tellOf(account, repair);
    };
    let { seq } = account;
    // Where nobody knows whether something was lost, an answer that is lost could have told it.
    if (!repair.isTold) take(await this.#repetitions.find(account, change), seq);
    ({ seq } = account);
    const repetition = await this.#repetitions.repeat(account, change);
    if (repetition.reapplied) repair.reapplied += 1;
    take(repetition, seq);
    if (repetition.refused !== undefined && 'posted' in change)
      this.#giveUp(account, change, repetition.refused);
  }

  /** It would be refused for ever. */
  #giveUp(account: WatchedAccount, change: Extract<Change, { posted: unknown }>, code: string): void {
    const { tell, window } = this.#options;
    window.giveUp(account, change);
    const { type, command } = change;
    const id = type === 'settle' ? command.requestId : command.id;
    const amount = type === 'grant' ? command.amount : type === 'adjust' ? command.delta : -command.amount;
    tell({ type: 'repair_refused', account: account.id, id, amount: formatUsd(amount), code });
  }

  /** Tells of a rollback once, however much of it is seen. */
  #tellOf({ id: account }: WatchedAccount, repair: Repair): void {
    if (repair.isTold || !repair.found) return;
    repair.isTold = true;
    const { expected, found } = repair.found;
    this.#options.tell({ type: 'rollback', account, expected: String(expected), found: String(found) });
  }

  /** @param looked - what was looked at since `startedAt`, or repeated */
  #passed(
    account: WatchedAccount,
    outages: number,
    startedAt: number,
    looked: ReadonlySet<Change | LiveHold | undefined>,
  ): void {
    account.checkedAt = startedAt;
    account.checkedOutages = outages;
    // After another outage they are as suspect as before.
    if (outages !== this.#options.health.outages) return;
    for (const each of account.suspects) if (looked.has(each)) account.suspects.delete(each);
  }

  #deliver<T>(account: WatchedAccount, call: () => Promise<T>): Promise<T> {
    return this.#deliveries.deliver(account.id, call);
  }
}

/** Why an account is repaired. */
interface Evidence {
  readonly expected: bigint;
  /** What has been applied again already. */
  readonly reapplied: number;
  /** Something was lost; else something may have been. */
  readonly isCertain: boolean;
}

interface Repair {
  /** It has to begin, or something more was lost meanwhile. */
  again: boolean;
  /** What operators are to hear of: the position that was acknowledged, and the one found. */
  found: { readonly expected: bigint; readonly found: bigint } | undefined;
  isTold: boolean;
  reapplied: number;
  done: Promise<void>;
}

/** What is to be repeated, in steps: money first, so that the holds and charges find it. */
function inOrderOfRepetition(account: WatchedAccount): readonly (readonly (Change | LiveHold)[])[] {
  const changes = [...account.changes.keys()];
  const settles = changes.filter((change) => change.type === 'settle');
  const voids = changes.filter((change) => change.type === 'void');
  const others = changes.filter((change) => change.type !== 'settle' && change.type !== 'void');
  return [...others.map((change) => [change]), [...account.holds.values()], settles, voids];
}

/** Begins with each in order, some at once; stops at the first failure. */
async function inTurn<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  let failed = false;
  const worker = async (): Promise<void> => {
    for (const item of left) {
      if (failed) return;
      try {
        await work(item);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, worker));
}
