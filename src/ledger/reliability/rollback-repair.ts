import { RetryQueue } from './retry-queue.ts';
import type { LedgerEvent } from '../contract/events.ts';
import type { CallResult, StoreCaller, StoreHealth } from './store-caller.ts';
import { formatUsd } from '../contract/money.ts';
import {
  type Change,
  leavesTrace,
  type LiveHold,
  type RedoLog,
  type Trace,
  type WatchedAccount,
} from './redo-log.ts';
import type { ReplyMeta } from '../contract/reply.ts';
import type { Replayer } from './replayer.ts';
import { UNPAID_MS, type UnpaidCharges } from './unpaid-charges.ts';

export interface RollbackRepairOptions {
  readonly window: RedoLog;
  readonly health: StoreHealth;
  readonly listener: StoreCaller;
  readonly tell: (event: LedgerEvent) => void;
  readonly now: () => number;
  readonly repetitions: Replayer;
  readonly unpaid: UnpaidCharges;
}

/** How often an idle account with entries in the redo log is verified. */
const CHECK_AFTER_MS = 20_000;
const TICK_MS = 1000;
/** How often all accounts are gone through; in the ticks between, one tells whether the store is what it was. */
const ROUND_TICKS = 5;
const MAX_CHECKS_PER_ROUND = 250;
/** Checks, and repetitions of one kind for one account, that run at once. */
const AT_ONCE = 32;
/** Looked for by one command. */
const MAX_VERIFIED = 200;
/** The maximum number of passes of a repair: the next command finds what another rollback took. */
const MAX_PASSES = 5;
const MAX_PAUSE_MS = 500;

/**
 * Finds out that an account went back in time, and applies again what it lost.
 *
 * A rollback shows in what was acknowledged and is missing. Every command of an account has some of that as its
 * witnesses, so the first one after a rollback finds it, before anything is admitted. An idle account is
 * looked at now and then, and when another server may have taken the place of the one before. All that is in the window is
 * then repeated; the ids keep what was not lost from being applied twice.
 */
export class RollbackRepair {
  readonly #options: RollbackRepairOptions;
  readonly #listener: StoreCaller;
  readonly #repetitions: Replayer;
  readonly #deliveries: RetryQueue;
  readonly #repairs = new Map<WatchedAccount, Repair>();
  readonly #checking = new Set<WatchedAccount>();
  #checkingAll = false;
  #timer: NodeJS.Timeout | undefined;
  #ticks = 0;

  constructor(options: RollbackRepairOptions) {
    this.#options = options;
    this.#listener = options.listener;
    this.#repetitions = options.repetitions;
    const { now } = options;
    this.#deliveries = new RetryQueue({ now, onGrowth: () => {}, longestPauseMs: MAX_PAUSE_MS });
  }

  /** A change was acknowledged, or was again; of a new line of the journal it is known what it comes after. */
  record(account: WatchedAccount, change: Change, witnesses?: readonly Trace[]): void {
    this.#begin(account);
    this.#options.window.record(account, change, witnesses);
  }

  hold(account: WatchedAccount, hold: LiveHold): void {
    this.#begin(account);
    this.#options.window.hold(account, hold);
  }

  isRepairing(account: WatchedAccount): boolean {
    return this.#repairs.has(account);
  }

  /** Credits may be missing that other gateways apply again: a charge that finds too little is not to be written off. */
  mayLackCredits(account: WatchedAccount): boolean {
    return this.isRepairing(account) || this.#options.now() - account.rolledBackAt < UNPAID_MS;
  }

  /** Resolves once what the account is known to have lost is there again, as far as that can be. */
  async whole(account: WatchedAccount): Promise<void> {
    await this.#repairs.get(account)?.done;
    await this.#options.unpaid.collect(account);
    // That may have found out that it went back in time once more.
    await this.#repairs.get(account)?.done;
  }

  /** A reply said that the account went back in time: it is repaired, or looked at where that is not sure. */
  wentBack(account: WatchedAccount, { reply, rolledBack }: CallResult<ReplyMeta>): void {
    if (rolledBack) void this.repair(account, reply.seq);
    else this.#checkSoon(account);
  }

  #checkSoon(account: WatchedAccount): void {
    if (this.#checking.has(account)) return;
    this.#checking.add(account);
    this.#check(account)
      .catch(() => {})
      .finally(() => this.#checking.delete(account));
  }

  /**
   * Applies again what the account has lost.
   *
   * @param era - in which the command was sent that missed something: if a repair has ended since, that made it good
   */
  repair(account: WatchedAccount, found: bigint, era: number = account.epoch): Promise<void> {
    const running = this.#repairs.get(account);
    if (running) return running.done;
    if (era !== account.epoch) return Promise.resolve();
    const { seq: expected, id } = account;
    account.epoch += 1;
    account.seq = found;
    account.rolledBackAt = this.#options.now();
    this.#options.tell({ type: 'rollback', account: id, expected: String(expected), found: String(found) });
    const repair: Repair = {
      era: account.epoch,
      hopeless: new Set(),
      reapplied: 0,
      done: Promise.resolve(),
    };
    this.#repairs.set(account, repair);
    repair.done = this.#repair(account, repair).finally(() => this.#repairs.delete(account));
    // Its callers await it; it fails only when the store is closed.
    repair.done.catch(() => {});
    return repair.done;
  }

  /** A hold was not found: applies again what the account has lost, if the account is there and the hold is still missing. */
  async repairHold(account: WatchedAccount, hold: LiveHold): Promise<void> {
    const { epoch: era } = account;
    const { missing, seq } = await this.#lookFor(account, [hold]);
    if (missing.size > 0) await this.repair(account, seq, era);
    else await this.#repairs.get(account)?.done;
  }

  /** Another server may have taken the place of the one before: every account is looked at. */
  storeChanged(): void {
    this.#deliveries.wake();
    void this.#checkAll(this.#options.window.watched().filter((account) => !this.#wasChecked(account)));
  }

  close(): void {
    clearInterval(this.#timer);
    this.#deliveries.close();
  }

  #begin(account: WatchedAccount): void {
    if (!account.hasTraces) {
      account.checkedAt = this.#options.now();
      account.checkedLosses = this.#listener.losses;
    }
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS).unref();
  }

  #wasChecked({ checkedLosses }: WatchedAccount): boolean {
    return checkedLosses === this.#listener.losses;
  }

  #tick(): void {
    const { window, health, now } = this.#options;
    this.#listener.reportLoss();
    this.#ticks += 1;
    if (this.#ticks % ROUND_TICKS !== 0) {
      const first = window.firstWatched();
      if (first && !health.failing) void this.#checkAll([first]);
      return;
    }
    window.expire(
      (account) =>
        this.#wasChecked(account) &&
        now() - account.checkedAt < 2 * CHECK_AFTER_MS &&
        !this.#repairs.has(account) &&
        !health.failing,
    );
    const due: WatchedAccount[] = [];
    let watched = 0;
    for (const account of window.watched()) {
      watched += 1;
      this.#options.unpaid.collect(account).catch(() => {});
      const isDue = !this.#wasChecked(account) || now() - account.checkedAt >= CHECK_AFTER_MS;
      if (isDue && due.length < MAX_CHECKS_PER_ROUND) due.push(account);
    }
    if (watched === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    // One of them finds out whether the store is back, also without other commands.
    void this.#checkAll(health.failing ? due.slice(0, 1) : due);
  }

  async #checkAll(accounts: readonly WatchedAccount[]): Promise<void> {
    if (this.#checkingAll) return;
    this.#checkingAll = true;
    const { losses } = this.#listener;
    try {
      let failures = 0;
      await inTurn(accounts, async (account) => {
        if (!account.hasTraces || this.#repairs.has(account)) return;
        try {
          await this.#check(account);
        } catch (error) {
          // The store may be unavailable, in part or whole: its recovery starts this again.
          failures += 1;
          if (failures === AT_ONCE) throw error;
        }
      });
    } catch {
      // As above.
    } finally {
      this.#checkingAll = false;
    }
    // Another server may have come meanwhile.
    if (losses !== this.#listener.losses) this.storeChanged();
  }

  /** Looks for all that was acknowledged of an account. */
  async #check(account: WatchedAccount): Promise<void> {
    const { losses } = this.#listener;
    const { epoch: era } = account;
    const startedAt = this.#options.now();
    const { missing, seq } = await this.#lookFor(account, [...account.tips.keys()]);
    // No caller waits for the repair: the other accounts are next.
    if (missing.size > 0) return void this.repair(account, seq, era);
    if (await this.#lacksKeys(account, losses)) return void this.repair(account, account.seq, era);
    if (era !== account.epoch) return;
    account.checkedAt = startedAt;
    account.checkedLosses = losses;
  }

  /**
   * Which of these are missing, and where the journal is.
   *
   * A missing account is reported, and has nothing to repair.
   */
  async #lookFor(
    account: WatchedAccount,
    traces: readonly Trace[],
  ): Promise<{ readonly missing: ReadonlySet<Trace>; readonly seq: bigint }> {
    const { window } = this.#options;
    const { id } = account;
    const missing = new Set<Trace>();
    let { seq } = account;
    for (let from = 0; from === 0 || from < traces.length; from += MAX_VERIFIED) {
      const some = traces.slice(from, from + MAX_VERIFIED);
      const { reply, isCurrent } = await this.#listener.callAccount(
        account,
        'verify',
        { account: id, witnesses: [] },
        { traces: some, isRepair: true },
      );
      if (reply.code === 'no_account' && account.isKnown) this.#listener.markMissing(account, isCurrent);
      if (reply.code === 'no_account' || account.lost) return { missing: new Set(), seq };
      ({ seq } = reply);
      const lost = (reply.missing ?? []).flatMap((place) => some[place] ?? []);
      for (const each of lost) missing.add(each);
      if (lost.length === 0) window.sawTogether(account, some);
    }
    return { missing, seq };
  }

  /** Makes sure of what leaves no trace: says whether a key is missing. */
  async #lacksKeys(account: WatchedAccount, losses: number): Promise<boolean> {
    for (const { at, change } of account.changes.values()) {
      if (leavesTrace(change)) continue;
      // Another process may have undone what has no version: that is repeated with cause alone.
      const hasVersion = change.type !== 'freeze' && change.type !== 'setFloor';
      const isNew = hasVersion && at >= account.checkedAt;
      if (!isNew && account.checkedLosses === losses) continue;
      if (change.type !== 'createKey') await this.#repetitions.repeat(account, change);
      else if (await this.#repetitions.lacksKey(account, change)) return true;
      if (account.lost) return false;
    }
    return false;
  }

  async #repair(account: WatchedAccount, repair: Repair): Promise<void> {
    const { now } = this.#options;
    for (let passes = 0; passes < MAX_PASSES; passes++) {
      const { losses } = this.#listener;
      const startedAt = now();
      const traces = tracesOf(account).filter((trace) => !repair.hopeless.has(trace));
      const { missing } = await this.#deliver(account, () => this.#lookFor(account, traces));
      if (account.lost) return;
      // What leaves no trace is repeated once; that all else is there is seen by the pass after its repetition.
      if (passes > 0 && missing.size === 0) {
        account.checkedAt = startedAt;
        account.checkedLosses = losses;
        break;
      }
      for (const changes of inOrderOfRepetition(account, missing, passes === 0)) {
        await inTurn(changes, (change) =>
          this.#deliver(account, () => this.#repeat(account, change, repair)),
        );
      }
      if (account.lost) return;
    }
    // What was sent meanwhile says nothing of what is there now.
    account.epoch += 1;
    account.rolledBackAt = now();
    this.#options.unpaid.repaired(account, repair.reapplied);
  }

  async #repeat(account: WatchedAccount, change: Change | LiveHold, repair: Repair): Promise<void> {
    if (account.lost || account.epoch !== repair.era) return;
    const { reapplied, isGone, refused, charged } = await this.#repetitions.repeat(account, change);
    if (reapplied) repair.reapplied += 1;
    if (isGone && isTrace(change)) {
      repair.hopeless.add(change);
      account.tips.delete(change);
    }
    if (change.type === 'adjust' && refused === 'below_floor') {
      this.#options.unpaid.add(account, change, 0n);
    } else if (refused !== undefined && 'posted' in change) {
      this.#giveUp(account, change, refused);
    }
    if (change.type === 'settle' && charged !== undefined && charged < change.command.amount) {
      this.#options.unpaid.add(account, change, charged);
    }
  }

  /** It would be refused for ever. */
  #giveUp(account: WatchedAccount, change: Extract<Change, { posted: unknown }>, code: string): void {
    const { tell, window } = this.#options;
    window.giveUp(account, change);
    const { type, command } = change;
    const id = 'requestId' in command ? command.requestId : command.id;
    const amount = 'delta' in command ? command.delta : type === 'settle' ? -command.amount : command.amount;
    tell({ type: 'repair_refused', account: account.id, id, amount: formatUsd(amount), code });
  }

  async #deliver<T>(account: WatchedAccount, send: () => Promise<T>): Promise<T> {
    return this.#deliveries.deliver(account.id, { send });
  }
}

interface Repair {
  /** Of the account, while it goes on. */
  readonly era: number;
  /** What can't be there again, as a hold of a request that has ended meanwhile. */
  readonly hopeless: Set<Trace>;
  reapplied: number;
  done: Promise<void>;
}

/** All that can be looked for. Of an adjustment that waits for credits it is known that it isn't there. */
function tracesOf({ changes, holds, unpaid }: WatchedAccount): Trace[] {
  const mayBeThere = (change: Change): boolean => change.type !== 'adjust' || !unpaid?.charges.has(change);
  return [...[...changes.keys()].filter(leavesTrace).filter(mayBeThere), ...holds.values()];
}

function isTrace(change: Change | LiveHold): change is Trace {
  return change.type === 'hold' || leavesTrace(change);
}

/**
 * What is to be repeated, in steps: money first, so that the holds and charges find it.
 *
 * @param all - what leaves no trace, too
 */
function inOrderOfRepetition(
  { changes, holds }: WatchedAccount,
  missing: ReadonlySet<Trace>,
  all: boolean,
): readonly (readonly (Change | LiveHold)[])[] {
  const due = [...changes.keys()].filter((change) => (leavesTrace(change) ? missing.has(change) : all));
  const settles = due.filter((change) => change.type === 'settle');
  const voids = due.filter((change) => change.type === 'void');
  const refunds = due.filter((change) => change.type === 'refund');
  const others = due.filter(({ type }) => type !== 'settle' && type !== 'void' && type !== 'refund');
  return [
    ...others.map((change) => [change]),
    [...holds.values()].filter((hold) => missing.has(hold)),
    // What a void gives back may be what a charge needs.
    voids,
    settles,
    refunds,
  ];
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
