import { Link } from '../../async/link.ts';
import { PassingMap } from '../../async/passing-map.ts';
import type {
  Adjust,
  AdjustResult,
  Admit,
  Allow,
  EndAllowance,
  Extend,
  Grant,
  GrantResult,
  Refund,
  RefundResult,
  SetFloor,
  Settle,
  SettleResult,
  Void,
  Witness,
} from '../contract/ledger-store.ts';
import type { CreateKey, RotateKey, UpdateKey } from '../contract/key-records.ts';
import type { NanoDollars } from '../contract/money.ts';
import { refundId } from '../contract/reserved-ids.ts';

/** How long what was acknowledged is remembered, and how much of it at most. */
const WINDOW_MS = 60_000;
const MAX_ENTRIES = 50_000;
/** Accounts that are remembered, at a few hundred bytes each. There are more while something of each is in the window. */
const MAX_ACCOUNTS = 50_000;
/** Accounts that a new one looks at, to find one that can be forgotten. */
const MAX_LOOKS = 8;

/** A change that the store has acknowledged. */
export type Change =
  | { readonly type: 'grant'; readonly command: Grant; posted: Posted | undefined }
  | { readonly type: 'adjust'; readonly command: Adjust; posted: Posted | undefined }
  | { readonly type: 'refund'; readonly command: Refund; posted: Posted | undefined }
  | { readonly type: 'setFloor'; readonly command: SetFloor }
  | { readonly type: 'allow'; readonly command: Allow }
  | { readonly type: 'endAllowance'; readonly command: EndAllowance }
  | { readonly type: 'createKey'; readonly command: CreateKey }
  | { readonly type: 'updateKey'; readonly command: UpdateKey }
  | { readonly type: 'rotateKey'; readonly command: RotateKey }
  | { readonly type: 'revokeKey'; readonly key: string }
  | { readonly type: 'freeze' }
  | { readonly type: 'settle'; readonly command: Settle; posted: Posted | undefined }
  | { readonly type: 'void'; readonly command: Void };

/** The journal position in the answer to what posted a change, and the time: no other line has both. Undefined where it was posted before. */
export interface Posted {
  readonly seq: bigint;
  readonly at: number;
}

/** What an answer says of where its change was posted. */
export function postedBy({
  code,
  seq,
  now,
}: SettleResult | GrantResult | AdjustResult | RefundResult): Posted | undefined {
  return code === 'ok' ? { seq, at: now } : undefined;
}

/** A hold as it was last acknowledged. */
export interface LiveHold {
  readonly type: 'hold';
  readonly admit: Admit;
  readonly extend: Extend;
}

/** What a witness can be of. */
export type Trace = Extract<Change, { type: 'grant' | 'adjust' | 'refund' | 'settle' | 'void' }> | LiveHold;

/** A change that is remembered, among those of all accounts. */
class Entry extends Link {
  readonly account: WatchedAccount;
  readonly change: Change;
  /** When it was acknowledged last. */
  at: number;
  /** From when its minute counts. */
  since: number;

  constructor(account: WatchedAccount, change: Change, at: number) {
    super();
    this.account = account;
    this.change = change;
    this.at = at;
    this.since = at;
  }
}

/** What this process knows of an account from the store's answers. Linked in the order of their last use. */
export class WatchedAccount extends Link {
  readonly id: string;
  /** The highest journal position that was acknowledged since the last rollback; 0 while none was. */
  seq = 0n;
  /** Counts the rollbacks that were seen: what is sent before one says nothing of what is after it. */
  epoch = 0;
  /** It was in the store once. */
  isKnown = false;
  /** It was known, and is not in the store any more. */
  lost = false;
  // Made when they are needed: a store that loses nothing needs none, and has a new account with each command.
  #changes: Map<Change, Entry> | undefined;
  #holds: PassingMap<LiveHold> | undefined;
  #tips: Map<Trace, number> | undefined;
  /** How many tips there have been. */
  #acknowledged = 0;
  /** The tip that was acknowledged last, while it is one. */
  #newest: Trace | undefined;
  /** When it was last found to have everything, and how often another server may have come by then. */
  checkedAt: number;
  checkedLosses = 0;
  /** What the balance doesn't cover since a rollback. */
  unpaid: Unpaid | undefined;
  /** When it was last seen to go back in time, or its repair has ended. */
  rolledBackAt: number = -Infinity;

  constructor(id: string, now: number) {
    super();
    this.id = id;
    this.checkedAt = now;
  }

  /** What it changed, oldest first. */
  get changes(): Map<Change, Entry> {
    return (this.#changes ??= new Map());
  }

  /** By request id. */
  get holds(): PassingMap<LiveHold> {
    return (this.#holds ??= new PassingMap());
  }

  /**
   * What was acknowledged, but for what a later line of the journal is known to come after: while these are there, so is
   * everything. With the order in which they were acknowledged; those that were sent as witnesses last are at the end.
   */
  get tips(): Map<Trace, number> {
    return (this.#tips ??= new Map());
  }

  liveHold(requestId: string): LiveHold | undefined {
    return this.#holds?.get(requestId);
  }

  /** Nothing of it is in the window. */
  get isIdle(): boolean {
    return (this.#changes?.size ?? 0) === 0 && (this.#holds?.size ?? 0) === 0;
  }

  /** There is something that can be looked for. */
  get hasTraces(): boolean {
    return (this.#tips?.size ?? 0) > 0 || (this.#changes?.size ?? 0) > 0;
  }

  /**
   * The tips that the next command has for witnesses: the newest, and of the others not always the same ones.
   *
   * @param options.except - is looked for by the command itself
   * @param options.most - the newest is enough, but for a rollback that some of a burst of commands came after
   */
  nextWitnesses({ except, most = MAX_WITNESSES }: { except?: Trace; most?: number } = {}): readonly Trace[] {
    if (this.#acknowledged === 0) return NO_TRACES;
    const newest = this.#newestTip(except);
    if (!newest) return NO_TRACES;
    const chosen = [newest];
    for (const tip of this.tips.keys()) {
      if (chosen.length >= most) break;
      if (tip !== except && tip !== newest) chosen.push(tip);
    }
    if (chosen.length < this.tips.size) for (const tip of chosen.slice(1)) this.#moveToEnd(tip);
    return chosen;
  }

  addTip(tip: Trace): void {
    this.#acknowledged += 1;
    this.tips.delete(tip);
    // A void is the weakest witness: its own repetition may have made it after a rollback.
    const isWeak = tip.type === 'void';
    this.tips.set(tip, isWeak ? 0 : this.#acknowledged);
    if (!isWeak) this.#newest = tip;
  }

  /** The tip is the same change, said in other words. */
  replaceTip(tip: Trace, by: Trace): void {
    const number = this.tips.get(tip);
    if (number === undefined) return;
    this.tips.delete(tip);
    this.tips.set(by, number);
    if (this.#newest === tip) this.#newest = by;
  }

  /** The tip that was acknowledged last: the first to be lost. */
  #newestTip(except: Trace | undefined): Trace | undefined {
    if (this.#newest && this.#newest !== except && this.tips.has(this.#newest)) return this.#newest;
    let newest: Trace | undefined;
    let last = -1;
    for (const [tip, number] of this.tips) {
      if (number > last && tip !== except) [newest, last] = [tip, number];
    }
    return newest;
  }

  #moveToEnd(tip: Trace): void {
    const number = this.tips.get(tip) ?? 0;
    this.tips.delete(tip);
    this.tips.set(tip, number);
  }
}

/** What is charged, or is taken by an operator. */
export type Debit = Extract<Change, { type: 'settle' | 'adjust' }>;

/** Charges that were posted in part, and adjustments that were not. */
export interface Unpaid {
  /** From when its half-minute counts, unless there was a rollback since. */
  since: number;
  /** How much was applied again by repairs that have ended since. */
  reapplied: number | undefined;
  collecting: Promise<void> | undefined;
  /** What was charged of each. */
  readonly charges: Map<Debit, NanoDollars>;
}

const NO_TRACES: readonly Trace[] = [];

/** Sent with a command: in Redis each costs about a thirtieth of what the command does. */
const MAX_WITNESSES = 2;

export function witnessOf(trace: Trace): Witness {
  switch (trace.type) {
    case 'hold':
      return { type: 'request', id: trace.admit.requestId, state: 'held', hold: trace.extend.hold };
    case 'void':
      return { type: 'request', id: trace.command.requestId, state: 'voided' };
    case 'settle': {
      const { requestId: id, amount } = trace.command;
      if (trace.posted) return { type: 'line', ...trace.posted, id };
      return { type: 'request', id, state: 'settled', ...(amount === 0n && { isFree: true }) };
    }
    case 'refund': {
      const { requestId: id } = trace.command;
      return trace.posted ? { type: 'line', ...trace.posted, id } : { type: 'payment', id: refundId(id) };
    }
    default: {
      const { id } = trace.command;
      return trace.posted ? { type: 'line', ...trace.posted, id } : { type: 'payment', id };
    }
  }
}

/** Whether a witness can be had of it. */
export function leavesTrace(change: Change): change is Exclude<Trace, LiveHold> {
  return ['grant', 'adjust', 'refund', 'settle', 'void'].includes(change.type);
}

/**
 * What the store acknowledged of late, by account: the changes of the last
 * minute in which the account could be believed, at most 50,000 of them, and
 * every hold that lives.
 */
export class RedoLog {
  readonly #now: () => number;
  readonly #forgetsAccounts: boolean;
  readonly #accounts = new Map<string, WatchedAccount>();
  /** The same accounts as a ring: the one that was used last is the last. The iterator of a `Map` steps over the holes of all that has left. */
  readonly #used = new Link();
  /** Changes of all accounts, oldest first: a ring for the same reason. */
  readonly #entries = new Link();
  #entryCount = 0;
  #expiredAt: number;

  /** @param options.forgetsAccounts - nothing is kept of an account from one command to the next: its store loses nothing */
  constructor(now: () => number, { forgetsAccounts = false }: { readonly forgetsAccounts?: boolean } = {}) {
    this.#now = now;
    this.#forgetsAccounts = forgetsAccounts;
    this.#expiredAt = now();
  }

  /** The account, with what is known of it. */
  watch(id: string): WatchedAccount {
    if (this.#forgetsAccounts) return new WatchedAccount(id, this.#now());
    let account = this.#accounts.get(id);
    if (account) account.unlink();
    else {
      account = new WatchedAccount(id, this.#now());
      this.#accounts.set(id, account);
      this.#forgetIdle();
    }
    account.linkBefore(this.#used);
    return account;
  }

  /** Those of whom something is remembered that can be looked for; the one that was used longest ago is the first. */
  watched(): readonly WatchedAccount[] {
    // A list, not a walk: what a caller does with an account may move it in the ring.
    return [...this.#walk()];
  }

  /** The one of them that was used longest ago. */
  firstWatched(): WatchedAccount | undefined {
    return this.#walk().next().value;
  }

  *#walk(): Generator<WatchedAccount, undefined> {
    for (let link = this.#used.next; link instanceof WatchedAccount; link = link.next) {
      if (link.hasTraces) yield link;
    }
  }

  /**
   * A change was acknowledged, or was again.
   *
   * @param witnesses - that were there when it was made: a new line of the journal comes after them
   */
  record(account: WatchedAccount, change: Change, witnesses: readonly Trace[] = []): void {
    const at = this.#now();
    const before = account.changes.get(change);
    const isTrace = leavesTrace(change);
    if (before && !isTrace) {
      // In its place: what came after it was made from it.
      before.at = before.since = at;
      return;
    }
    if (before) this.#forget(before);
    const entry = new Entry(account, change, at);
    account.changes.set(change, entry);
    entry.linkBefore(this.#entries);
    this.#entryCount += 1;
    if (isTrace) {
      if ('posted' in change && change.posted) for (const each of witnesses) account.tips.delete(each);
      account.addTip(change);
    }
    const oldest = this.#entries.next;
    if (this.#entryCount > MAX_ENTRIES && oldest instanceof Entry) this.#forget(oldest);
  }

  /** They were all there at one moment: of lines of the journal, the last comes after the others. */
  sawTogether(account: WatchedAccount, traces: readonly Trace[]): void {
    let last: Posted | undefined;
    for (const trace of traces.toSorted((a, b) => compare(postedSeq(b), postedSeq(a)))) {
      const posted = 'posted' in trace ? trace.posted : undefined;
      if (posted && last) account.tips.delete(trace);
      last ??= posted;
    }
  }

  /** A grant, adjustment or refund of this id is remembered. */
  knows(account: WatchedAccount, wanted: Extract<Change, { type: 'grant' | 'adjust' | 'refund' }>): boolean {
    for (const change of account.changes.keys()) {
      if (change.type === wanted.type && paymentId(change) === paymentId(wanted)) return true;
    }
    return false;
  }

  /** That this key was made is remembered. */
  madeKey(account: WatchedAccount, key: string): CreateKey | undefined {
    for (const change of account.changes.keys()) {
      if (change.type === 'createKey' && change.command.key === key) return change.command;
    }
    return undefined;
  }

  hold(account: WatchedAccount, hold: LiveHold): void {
    const { requestId } = hold.admit;
    const before = account.holds.get(requestId);
    account.holds.set(requestId, hold);
    // That a mere renewal was lost doesn't show, and the next one makes it good.
    if (before && hold.extend.hold <= before.extend.hold) {
      account.replaceTip(before, hold);
      return;
    }
    if (before) account.tips.delete(before);
    account.addTip(hold);
  }

  /** It is not repeated any more. */
  giveUp(account: WatchedAccount, change: Change): void {
    const entry = account.changes.get(change);
    if (entry) this.#forget(entry);
  }

  /** What was frozen may thaw. */
  thaw(account: WatchedAccount): void {
    for (const entry of account.changes.values()) if (entry.change.type === 'freeze') this.#forget(entry);
  }

  /** A hold was lost, and is there again, perhaps smaller. */
  holdAgain(account: WatchedAccount, before: LiveHold, hold: NanoDollars): void {
    const { requestId } = before.admit;
    if (account.holds.get(requestId) !== before) return;
    const again = { ...before, extend: { ...before.extend, hold } };
    account.holds.set(requestId, again);
    account.tips.delete(before);
    account.addTip(again);
  }

  /** The request ended: returns what its hold was. */
  release(account: WatchedAccount, requestId: string): LiveHold | undefined {
    const hold = account.liveHold(requestId);
    if (!hold) return undefined;
    account.holds.delete(requestId);
    account.tips.delete(hold);
    return hold;
  }

  /**
   * Forgets what was acknowledged too long ago; to be called every few seconds.
   *
   * @param isBelieved - the minutes of an account count only while it is known to have lost nothing
   */
  expire(isBelieved: (account: WatchedAccount) => boolean): void {
    const now = this.#now();
    const passed = now - this.#expiredAt;
    this.#expiredAt = now;
    let next = this.#entries.next;
    while (next instanceof Entry) {
      const entry = next;
      next = entry.next;
      if (!isBelieved(entry.account) || entry.account.unpaid)
        entry.since = Math.min(now, entry.since + passed);
      else if (entry.since <= now - WINDOW_MS) this.#forget(entry);
    }
  }

  /** Forgets an account that was deleted. */
  forget(account: WatchedAccount): void {
    this.clear(account);
    account.epoch += 1;
    account.seq = 0n;
    account.isKnown = false;
    account.lost = false;
  }

  /** Forgets all of an account but that it was known. */
  clear(account: WatchedAccount): void {
    for (const entry of account.changes.values()) this.#forget(entry);
    account.holds.clear();
    account.tips.clear();
    account.unpaid = undefined;
  }

  #forget(entry: Entry): void {
    const { account, change } = entry;
    if (!account.changes.delete(change)) return;
    entry.unlink();
    this.#entryCount -= 1;
    if (leavesTrace(change)) account.tips.delete(change);
  }

  /** Forgets those that were used longest ago, where there are too many. One that is not idle counts as used. */
  #forgetIdle(): void {
    for (let looks = 0; looks < MAX_LOOKS && this.#accounts.size > MAX_ACCOUNTS; looks++) {
      const oldest = this.#used.next;
      if (!(oldest instanceof WatchedAccount)) return;
      oldest.unlink();
      if (oldest.isIdle) this.#accounts.delete(oldest.id);
      else oldest.linkBefore(this.#used);
    }
  }
}

function paymentId(change: Change): string | undefined {
  if (change.type === 'refund') return change.command.requestId;
  return change.type === 'grant' || change.type === 'adjust' ? change.command.id : undefined;
}

/** Position of its line, where that is known. */
function postedSeq(trace: Trace): bigint {
  return ('posted' in trace ? trace.posted?.seq : undefined) ?? 0n;
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
