import { Deliveries } from './deliveries.ts';
import type { LedgerEvent } from './events.ts';
import { type Admit, type LedgerStore, StoreUnavailable } from './ledger.ts';
import type { NanoDollars } from './money.ts';
import type { Change, LiveHold, Mark, RedoWindow, WatchedAccount } from './redo-window.ts';
import type { StoreHealth } from './store-health.ts';

export interface RedoOptions {
  readonly store: LedgerStore;
  readonly window: RedoWindow;
  readonly health: StoreHealth;
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
 * was acknowledged: repeated, it is no duplicate. All that is in the window is
 * then repeated; the ids keep what was not lost from being applied twice.
 *
 * The newest is looked at after every outage, before anything is admitted, and now
 * and then. Lost holds and voids leave the position as it is: without an outage to be
 * noticed, a hold's next renewal finds it, and the voids are looked at with the newest.
 */
export class Redo {
  readonly #options: RedoOptions;
  readonly #deliveries: Deliveries;
  readonly #repairs = new Map<WatchedAccount, Repair>();
  readonly #checks = new Map<WatchedAccount, Promise<void>>();
  #checkingAll = false;
  #losses: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: RedoOptions) {
    this.#options = options;
    this.#losses = options.store.losses ?? 0;
    this.#deliveries = new Deliveries({ now: options.now, onGrowth: () => {} });
  }

  /**
   * Sends a command, once its account was looked at if that can be; says whether its reply is from before what was acknowledged.
   *
   * @param posts - a reply of `ok` has added a line to the journal
   */
  async ask<Reply extends { readonly code: string; readonly seq: bigint }>(
    account: WatchedAccount,
    send: () => Promise<Reply>,
    posts = false,
  ): Promise<{ readonly reply: Reply; readonly fell: boolean; readonly mark: Mark }> {
    try {
      await this.trust(account);
    } catch (error) {
      // The store may take charges though it takes nothing else, as when its memory is full.
      if (!(error instanceof StoreUnavailable)) throw error;
    }
    return this.#ask(account, send, posts);
  }

  async #ask<Reply extends { readonly code: string; readonly seq: bigint }>(
    account: WatchedAccount,
    send: () => Promise<Reply>,
    posts = false,
  ): Promise<{ readonly reply: Reply; readonly fell: boolean; readonly mark: Mark }> {
    const { mark } = account;
    const reply = await this.hear(send);
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
    this.#countLosses();
    try {
      const reply = await send();
      health.answered();
      return reply;
    } catch (error) {
      if (error instanceof StoreUnavailable) health.failed(error);
      throw error;
    }
  }

  record(account: WatchedAccount, change: Change, mark: Mark, wasMade = true): void {
    this.#begin(account, mark);
    this.#options.window.record(account, change, wasMade);
  }

  hold(account: WatchedAccount, hold: LiveHold, mark: Mark): void {
    this.#begin(account, mark);
    this.#options.window.hold(account, hold);
  }

  /** The request ended: returns what its hold was. */
  release(account: WatchedAccount, requestId: string): LiveHold | undefined {
    const { window, health } = this.#options;
    const { newest, newestBefore } = account;
    const hold = window.release(account, requestId);
    const wasToTell = hold !== undefined && (hold === newest || hold === newestBefore);
    if (wasToTell && account.checkedOutages !== health.outages) account.isUnsure = true;
    return hold;
  }

  /** Resolves once an account can be believed: since the store was away, it was found to have everything. */
  async trust(account: WatchedAccount): Promise<void> {
    await this.#repairs.get(account)?.done;
    this.#countLosses();
    const { outages } = this.#options.health;
    if (account.hasTraces && account.checkedOutages !== outages) await this.#check(account);
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
    if (running) {
      running.again = true;
      return running.done;
    }
    const repair: Repair = { again: false, done: Promise.resolve() };
    this.#repairs.set(account, repair);
    repair.done = this.#repair(account, repair, found, { expected, reapplied, isCertain }).finally(() => {
      this.#repairs.delete(account);
    });
    // Who waits for it hears of it; it fails only by being closed.
    repair.done.catch(() => {});
    return repair.done;
  }

  /** Before what makes an account where there is none: makes none anew that is lost. */
  async assertNotLost(account: WatchedAccount): Promise<void> {
    await this.trust(account);
    if (!(await this.#isThere(account))) throw gone(account);
  }

  /** What a rollback can have taken from an account's charges, at most. */
  mayHaveLost(account: WatchedAccount): NanoDollars {
    let sum = 0n;
    for (const change of account.changes.keys()) if (change.type === 'settle') sum += change.command.amount;
    return sum;
  }

  /** A known account isn't there any more: what was acknowledged must not make it anew. */
  lose(account: WatchedAccount): void {
    const { window, tell } = this.#options;
    if (account.lost) return;
    account.lost = true;
    account.era += 1;
    account.seq = 0n;
    window.clear(account);
    tell({ type: 'account_lost', account: account.id });
  }

  /** The store answers again, and may be another: every account is looked at. */
  storeIsBack(): void {
    this.#deliveries.wake();
    const { window, health } = this.#options;
    const suspects = [...window.watched()].filter((account) => account.checkedOutages !== health.outages);
    void this.#checkAll(suspects);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#deliveries.close();
  }

  #begin(account: WatchedAccount, mark: Mark): void {
    this.#countLosses();
    const { health, now } = this.#options;
    if (!account.hasTraces) {
      account.checkedAt = now();
      account.checkedOutages = health.outages;
    } else if (account.checkedOutages !== health.outages) {
      account.newestBefore ??= account.newest;
    }
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS).unref();
    if (mark.era === account.era) return;
    // It was acknowledged by what is the past now: it may be lost, and the repair may have missed it.
    const repair = this.#repairs.get(account);
    if (repair) repair.again = true;
    else account.checkedOutages = -1;
  }

  /** Behind a new connection there may be a server that lacks what was acknowledged. */
  #countLosses(): void {
    const { losses = 0 } = this.#options.store;
    if (losses !== this.#losses) this.#options.health.suspected();
    this.#losses = losses;
  }

  #tick(): void {
    const { window, health, now } = this.#options;
    this.#countLosses();
    window.expire();
    const idle: WatchedAccount[] = [];
    let watched = 0;
    for (const account of window.watched()) {
      watched += 1;
      const due = account.checkedOutages !== health.outages || now() - account.checkedAt >= CHECK_AFTER_MS;
      if (due && idle.length < MOST_CHECKS_A_TICK) idle.push(account);
    }
    if (watched === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    if (!health.failing) void this.#checkAll(idle);
  }

  async #checkAll(accounts: readonly WatchedAccount[]): Promise<void> {
    if (this.#checkingAll) return;
    this.#checkingAll = true;
    try {
      await inTurn(accounts, async (account) => {
        if (account.hasTraces) await this.#check(account);
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

  /** Repeats what was acknowledged last, which is the first to be lost, and what leaves no trace when it is. */
  async #look(account: WatchedAccount): Promise<void> {
    const { health, now } = this.#options;
    const { newest, newestBefore, checkedAt } = account;
    const { outages } = health;
    const startedAt = now();
    const looked = new Set([newestBefore, newest]);
    for (const { at, change, wasMade } of account.changes.values()) {
      // Another process may have thawed since what this one froze: that is repeated with cause alone.
      const isNew = change.type !== 'freeze' && at >= checkedAt;
      const hasCause = isNew || account.checkedOutages !== outages;
      if (hasCause && (leavesNoTrace(change) || !wasMade)) looked.add(change);
    }
    for (const change of looked) {
      if (!change) continue;
      const expected = account.seq;
      const isHold = change.type === 'hold';
      const { lost, fell, found } = await (isHold
        ? this.#find(account, change)
        : this.#repeat(account, change));
      if (account.lost) return;
      if (!lost && !fell) continue;
      return this.repair(account, found, { expected, reapplied: lost && !isHold ? 1 : 0 });
    }
    if (account.isUnsure) return this.repair(account, account.seq, { isCertain: false });
    account.checkedAt = startedAt;
    account.checkedOutages = outages;
    account.newestBefore = undefined;
  }

  async #repair(account: WatchedAccount, repair: Repair, found: bigint, evidence: Evidence): Promise<void> {
    const { tell, health, now } = this.#options;
    const expected = String(evidence.expected);
    let { reapplied } = evidence;
    let told = false;
    const tellOnce = (): void => {
      if (!told) tell({ type: 'rollback', account: account.id, expected, found: String(found) });
      told = true;
    };
    for (;;) {
      repair.again = false;
      const { outages } = health;
      const startedAt = now();
      if (!(await this.#deliver(account, () => this.#exists(account)))) return;
      if (evidence.isCertain) tellOnce();
      for (const changes of inOrderOfRepetition(account)) {
        await inTurn(changes, async (change) => {
          const {
            lost,
            fell,
            found: now,
          } = await this.#deliver(account, () => this.#repeat(account, change));
          if (lost) tellOnce();
          if (lost) reapplied += 1;
          if (fell) void this.repair(account, now);
        });
      }
      if (account.lost) return;
      if (repair.again) continue;
      account.checkedAt = startedAt;
      account.checkedOutages = outages;
      account.newestBefore = undefined;
      account.isUnsure = false;
      if (told) tell({ type: 'rollback_repaired', account: account.id, reapplied });
      return;
    }
  }

  #deliver<T>(account: WatchedAccount, call: () => Promise<T>): Promise<T> {
    return this.#deliveries.deliver(account.id, call);
  }

  #saw(account: WatchedAccount): void {
    account.lost = false;
    account.seenOutages = this.#options.health.outages;
  }

  /** Whether an account that was known is not lost; looks where the store was away since it was seen. */
  async #isThere(account: WatchedAccount): Promise<boolean> {
    this.#countLosses();
    const wasSeen = account.seenOutages === this.#options.health.outages && !account.lost;
    return !account.isKnown || wasSeen || this.#exists(account);
  }

  async #exists(account: WatchedAccount): Promise<boolean> {
    const balance = await this.hear(() => this.#options.store.balance(account.id));
    if (balance) this.#saw(account);
    else this.lose(account);
    return balance !== undefined;
  }

  /** Renews a hold, which is possible even while no hold can be taken; says whether it is there in its size. */
  async #find(account: WatchedAccount, { extend }: LiveHold): Promise<Repetition> {
    const renewal = { ...extend, hold: 0n };
    const { reply, fell } = await this.#ask(account, () => this.#options.store.extend(renewal));
    const shrank = reply.code === 'ok' && reply.hold < extend.hold;
    return { lost: reply.code === 'unknown' || shrank, fell, found: reply.seq };
  }

  /** Applies a change or hold again; says whether it had been lost. */
  async #repeat(account: WatchedAccount, change: Change | LiveHold): Promise<Repetition> {
    const { window } = this.#options;
    const repetition = await this.#send(account, change);
    // It is what was acknowledged last now, and may be lost again.
    if (!repetition.lost) return repetition;
    if (change.type === 'hold') window.holdAgain(account, change);
    else if (account.changes.has(change)) window.record(account, change, true);
    return repetition;
  }

  async #send(account: WatchedAccount, change: Change | LiveHold): Promise<Repetition> {
    const { store } = this.#options;
    const { id } = account;
    const nothing = { lost: false, fell: false, found: account.seq };
    const makesAccounts = change.type === 'grant' || change.type === 'createKey';
    if (makesAccounts && !(await this.#isThere(account))) return nothing;
    const ask = async (
      send: () => Promise<{ readonly code: string; readonly seq: bigint }>,
      ...whenLost: readonly string[]
    ): Promise<Repetition> => {
      const posts = change.type === 'grant' || change.type === 'adjust' || change.type === 'settle';
      const { reply, fell } = await this.#ask(account, send, posts);
      return { lost: whenLost.includes(reply.code), fell, found: reply.seq };
    };
    switch (change.type) {
      case 'grant':
        return ask(() => store.grant(change.command), 'ok');
      case 'adjust':
        return ask(() => store.adjust(change.command), 'ok');
      case 'settle': {
        const { command, admit } = change;
        if (admit) await this.#ask(account, () => store.admit(again(admit)));
        return ask(() => store.settle({ ...command, force: true }), 'ok');
      }
      case 'void':
        return ask(() => store.void(change.command), 'ok', 'planted');
      case 'hold': {
        const { admit, extend } = change;
        const { reply, fell } = await this.#ask(account, () =>
          store.admit({ ...again(admit), want: extend.hold, leaseMs: extend.leaseMs }),
        );
        if (reply.code !== 'ok' && reply.code !== 'exists') return { lost: false, fell, found: reply.seq };
        await this.#ask(account, () => store.extend(extend));
        return { lost: reply.code === 'ok' || reply.hold < extend.hold, fell, found: reply.seq };
      }
      case 'createKey':
        await this.hear(() => store.createKey(change.command));
        break;
      case 'revokeKey':
        await this.hear(() => store.revokeKey(id, change.key));
        break;
      case 'freeze':
        await this.hear(() => store.freeze(id, change.frozen));
        break;
    }
    return nothing;
  }
}

/** What is refused of an account that was known, and is not there. */
export function gone({ id }: WatchedAccount): StoreUnavailable {
  return new StoreUnavailable('no', { cause: new Error(`account ${id} is not in the store any more`) });
}

interface Repetition {
  readonly lost: boolean;
  /** The reply is from before what was acknowledged. */
  readonly fell: boolean;
  readonly found: bigint;
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
  /** Something more was lost meanwhile. */
  again: boolean;
  done: Promise<void>;
}

/** When it is lost, the journal is no shorter. */
function leavesNoTrace({ type }: Change): boolean {
  return type === 'void' || type === 'createKey' || type === 'revokeKey' || type === 'freeze';
}

/** What is to be repeated, in steps: money first, so that the holds and charges find it. */
function inOrderOfRepetition(account: WatchedAccount): readonly (readonly (Change | LiveHold)[])[] {
  const changes = [...account.changes.keys()];
  const settles = changes.filter((change) => change.type === 'settle');
  const voids = changes.filter((change) => change.type === 'void');
  const others = changes.filter((change) => change.type !== 'settle' && change.type !== 'void');
  return [...others.map((change) => [change]), [...account.holds.values()], settles, voids];
}

/** The admit that took a hold, as one that takes it again. */
function again(admit: Admit): Admit {
  return { ...admit, min: 0n, notAfter: Infinity, reassert: true };
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
