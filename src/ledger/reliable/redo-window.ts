import type {
  Adjust,
  AdjustResult,
  Admit,
  Extend,
  Grant,
  GrantResult,
  Settle,
  SettleResult,
  Void,
} from '../ledger.ts';
import type { CreateKey, RotateKey, UpdateKey } from '../keys.ts';

/** How long what was acknowledged is remembered, and how much of it at most. */
const WINDOW_MS = 60_000;
const MOST_ENTRIES = 50_000;
/** Accounts whose journal position is remembered, at a few hundred bytes each. */
const MOST_ACCOUNTS = 50_000;

/** A change that the store has acknowledged. */
export type Change =
  | { readonly type: 'grant'; readonly command: Grant; posted: Posted | undefined }
  | { readonly type: 'adjust'; readonly command: Adjust; posted: Posted | undefined }
  | { readonly type: 'createKey'; readonly command: CreateKey }
  | { readonly type: 'updateKey'; readonly command: UpdateKey }
  | { readonly type: 'rotateKey'; readonly command: RotateKey }
  | { readonly type: 'revokeKey'; readonly key: string }
  | { readonly type: 'freeze' }
  /** `admit` is kept where the store must know it again, for its idempotency key. */
  | { readonly type: 'settle'; readonly command: Settle; readonly admit?: Admit; posted: Posted | undefined }
  | { readonly type: 'void'; readonly command: Void };

/** The journal position in the answer to what posted a change, and the time: no other line has both. Undefined where it was posted before. */
export interface Posted {
  readonly seq: bigint;
  readonly at: number;
}

/** What an answer says of where its change was posted. */
export function postedBy({ code, seq, now }: SettleResult | GrantResult | AdjustResult): Posted | undefined {
  return code === 'ok' ? { seq, at: now } : undefined;
}

/** A hold as it was last acknowledged. */
export interface LiveHold {
  readonly type: 'hold';
  readonly admit: Admit;
  readonly extend: Extend;
}

/** Where an account's journal was when a command was sent: its reply can't be from before. */
export interface Mark {
  readonly seq: bigint;
  readonly era: number;
}

interface Entry {
  /** When it was acknowledged last. */
  at: number;
  /** From when its minute counts. */
  since: number;
  readonly account: WatchedAccount;
  readonly change: Change;
  /** It is known when it was made, and so that what was acknowledged later would be lost before it. */
  readonly wasMade: boolean;
}

/** What this process knows of an account from the store's answers. */
export class WatchedAccount {
  readonly id: string;
  /** The highest journal position that was acknowledged; 0 while none was. */
  seq = 0n;
  /** Counts the rollbacks that were seen: replies to commands from before one say nothing of what is after it. */
  era = 0;
  /** It was in the store once. */
  isKnown = false;
  /** It was known, and is not in the store any more. */
  lost = false;
  /** How many outages of the store there had been when it was last seen. */
  seenOutages = 0;
  /** What it changed, oldest first. */
  readonly changes: Map<Change, Entry> = new Map();
  /** By request id. */
  readonly holds: Map<string, LiveHold> = new Map();
  /** The change or hold that was acknowledged last: the first to be lost. */
  newest: Change | LiveHold | undefined;
  /** How many outages of the store there had been by then. */
  newestOutages = 0;
  /** What was `newest` before each outage that this account has not been checked since, and what came too late to be believed. */
  readonly suspects: Set<Change | LiveHold> = new Set();
  /** What was to be looked at after an outage has ended since: whether it was lost can't be seen any more. */
  isUnsure = false;
  /** When it was last found to have everything, and how many outages of the store there had been by then. */
  checkedAt: number;
  checkedOutages = 0;

  constructor(id: string, now: number) {
    this.id = id;
    this.checkedAt = now;
  }

  /** There is something that can be looked for. */
  get hasTraces(): boolean {
    return this.newest !== undefined || this.suspects.size > 0 || this.isUnsure || this.changes.size > 0;
  }

  get mark(): Mark {
    return { seq: this.seq, era: this.era };
  }
}

/**
 * What the store acknowledged of late, by account: the changes of the last
 * minute in which the account could be believed, at most 50,000 of them, and
 * every hold that lives.
 */
export class RedoWindow {
  readonly #now: () => number;
  readonly #outages: () => number;
  readonly #accounts = new Map<string, WatchedAccount>();
  /** Changes of all accounts, oldest first. */
  readonly #entries = new Set<Entry>();
  #expiredAt: number;

  /** @param outages - how many outages of the store there have been */
  constructor(now: () => number, outages: () => number) {
    this.#now = now;
    this.#outages = outages;
    this.#expiredAt = now();
  }

  /** The account, with what is known of it. */
  watch(id: string): WatchedAccount {
    let account = this.#accounts.get(id);
    if (account) this.#accounts.delete(id);
    else account = new WatchedAccount(id, this.#now());
    this.#accounts.set(id, account);
    if (this.#accounts.size > MOST_ACCOUNTS) this.#forgetOne();
    return account;
  }

  /** Those of whom something is remembered that can be looked for. */
  *watched(): Generator<WatchedAccount> {
    for (const account of this.#accounts.values()) if (account.hasTraces) yield account;
  }

  /**
   * A change was acknowledged, or was again.
   *
   * @param wasMade - by the command that was answered, and not by an earlier one
   */
  record(
    account: WatchedAccount,
    change: Change,
    wasMade: boolean = !('posted' in change) || change.posted !== undefined,
  ): void {
    // Of others a repetition doesn't tell whether they were lost.
    const tells = ['grant', 'adjust', 'settle', 'void'].includes(change.type);
    const at = this.#now();
    const before = account.changes.get(change);
    if (before && !tells) {
      // In its place: what came after it was made from it.
      before.at = before.since = at;
      return;
    }
    if (before) this.#forget(before);
    const entry: Entry = { at, since: at, account, change, wasMade };
    account.changes.set(change, entry);
    this.#entries.add(entry);
    if (tells && (wasMade || !account.newest)) this.#makeNewest(account, change);
    for (const oldest of this.#entries) {
      if (this.#entries.size <= MOST_ENTRIES) return;
      this.#forget(oldest);
    }
  }

  /** A grant or adjustment of this id is remembered. */
  knows(account: WatchedAccount, { type, command }: Extract<Change, { type: 'grant' | 'adjust' }>): boolean {
    for (const change of account.changes.keys()) {
      if (change.type === type && change.command.id === command.id) return true;
    }
    return false;
  }

  /** That this key was made is remembered. */
  hasMade(account: WatchedAccount, key: string): boolean {
    for (const change of account.changes.keys()) {
      if (change.type === 'createKey' && change.command.key === key) return true;
    }
    return false;
  }

  hold(account: WatchedAccount, hold: LiveHold): void {
    const { requestId } = hold.admit;
    const before = account.holds.get(requestId);
    account.holds.set(requestId, hold);
    // That a mere renewal was lost doesn't show, and the next one makes it good.
    if (!before || hold.extend.hold > before.extend.hold) this.#makeNewest(account, hold);
    else if (account.newest === before) account.newest = hold;
    if (before && account.suspects.delete(before)) account.suspects.add(hold);
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

  /** A hold was lost, and is there again. */
  holdAgain(account: WatchedAccount, hold: LiveHold): void {
    if (account.holds.get(hold.admit.requestId) === hold) this.#makeNewest(account, hold);
  }

  /** The request ended: returns what its hold was. */
  release(account: WatchedAccount, requestId: string): LiveHold | undefined {
    const hold = account.holds.get(requestId);
    account.holds.delete(requestId);
    if (!hold) return undefined;
    if (account.newest === hold) account.newest = undefined;
    account.suspects.delete(hold);
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
    for (const entry of this.#entries) {
      if (!isBelieved(entry.account)) entry.since = Math.min(now, entry.since + passed);
      else if (entry.since <= now - WINDOW_MS) this.#forget(entry);
    }
  }

  /** Forgets all of an account but that it was known. */
  clear(account: WatchedAccount): void {
    for (const entry of account.changes.values()) this.#forget(entry);
    account.holds.clear();
    account.newest = undefined;
    account.suspects.clear();
    account.isUnsure = false;
  }

  #makeNewest(account: WatchedAccount, newest: Change | LiveHold): void {
    const outages = this.#outages();
    const wasChecked = [account.newestOutages, account.checkedOutages].includes(outages);
    if (account.newest && !wasChecked) account.suspects.add(account.newest);
    account.newest = newest;
    account.newestOutages = outages;
  }

  #forget(entry: Entry): void {
    const { account, change } = entry;
    this.#entries.delete(entry);
    account.changes.delete(change);
    if (account.newest === change) account.newest = undefined;
    account.suspects.delete(change);
  }

  /** The account that was used longest ago, of those of whom nothing is in the window. */
  #forgetOne(): void {
    for (const [id, account] of this.#accounts) {
      if (account.changes.size > 0 || account.holds.size > 0) continue;
      this.#accounts.delete(id);
      return;
    }
  }
}
