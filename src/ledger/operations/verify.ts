import { isAccount } from '../engine/validate-commands.ts';
import { RequestVerifier } from './verify-requests.ts';
import type { AccountState, JournalLine, LedgerStore } from '../contract/ledger-store.ts';
import { formatUsd, type NanoDollars } from '../contract/money.ts';

/**
 * The books of a store, added up anew from its registers and journals.
 *
 * - I1 conservation: granted = available + held + spent + expired, and open lots are covered
 * - I2 holds: what is held is what the held requests hold, of the account and of each key
 * - I3 once: each request is posted once, be it in parts, as its record says
 * - I4 no overspend: available is not below the floor
 * - I5 overrun: available falls below 0 only by a charge larger than its hold
 * - I6 books: the journal has no gaps and folds to the books
 * - I7 usage: what is counted by day, key and model comes to what was charged
 */

/** Something that can't be, save by a bug or another hand in the store. */
export interface Finding {
  readonly account: string;
  readonly invariant: 'I1' | 'I2' | 'I3' | 'I4' | 'I5' | 'I6' | 'I7';
  /** What is wrong, with its numbers. */
  readonly message: string;
}

export interface AccountVerification {
  readonly account: string;
  /** Lines of the journal that were read. */
  readonly lines: number;
  /** Empty when all is well; the first hundred where there are more. */
  readonly findings: readonly Finding[];
}

export interface VerifyLedgerOptions {
  /** @default all accounts */
  readonly account?: string;
}

/**
 * Checks the books of a store, account by account, while it may be in use.
 *
 * Memory is bounded by the largest register of requests, not by accounts or journals.
 *
 * @throws StoreUnavailableError, and an Error when a journal is folded faster than it can be read
 */
export async function* verifyLedger(
  store: LedgerStore,
  { account }: VerifyLedgerOptions = {},
): AsyncGenerator<AccountVerification, void, undefined> {
  if (account !== undefined) {
    yield await verifyAccount(store, account);
    return;
  }
  for await (const each of store.accounts()) {
    // One that was damaged in the store can't be asked for.
    yield isAccount(each) ? await verifyAccount(store, each) : misnamed(each);
  }
}

function misnamed(account: string): AccountVerification {
  const message = `no account can have the name ${JSON.stringify(account)}`;
  return { account, lines: 0, findings: [{ account, invariant: 'I6', message }] };
}

const PAGE = 1000;
const MAX_FINDINGS = 100;
/** Ids of lines that are kept at once: a longer journal is read several times, for some of its ids each time. */
const IDS_AT_ONCE = 100_000;
const TRIES = 10;

type Report = (invariant: Finding['invariant'], message: string) => void;

/**
 * A snapshot is of one moment, and the lines up to its position never change: so what doesn't fit is wrong,
 * unless lines were folded, or a failover took some back, between the two reads.
 */
async function verifyAccount(store: LedgerStore, account: string): Promise<AccountVerification> {
  for (let tries = 0; tries < TRIES; tries++) {
    const findings: Finding[] = [];
    const report: Report = (invariant, message) => {
      if (findings.length < MAX_FINDINGS) findings.push({ account, invariant, message });
    };
    const state = await store.snapshot(account);
    if (!state) {
      report('I6', 'there are no books of this account');
      return { account, lines: 0, findings };
    }
    verifyState(state, report);
    const lines = await verifyJournal(store, account, state, report);
    if (findings.length === 0) return { account, lines, findings };
    const after = await store.snapshot(account);
    if (after && after.compacted.seq === state.compacted.seq && after.seq >= state.seq) {
      return { account, lines, findings };
    }
  }
  throw new Error(`the journal of account ${account} is folded faster than it can be read`);
}

/** What one snapshot shows. */
function verifyState(state: AccountState, report: Report): void {
  const { granted, available, held, spent, expired, floor, requests, keys, lots, usage, usageCompacted } =
    state;
  const accounted = available + held + spent + expired;
  if (granted !== accounted) {
    report(
      'I1',
      `granted is ${usd(granted)}, but available ${usd(available)} + held ${usd(held)} + spent ${usd(spent)} + expired ${usd(expired)} is ${usd(accounted)}`,
    );
  }
  const remaining = sum(lots.map((lot) => lot.remaining));
  if (remaining > available + held && floor === 0n) {
    report(
      'I1',
      `open lots have ${usd(remaining)}, but available and held are ${usd(available + held)} together`,
    );
  }
  const counted = sum(usage.map(({ charged }) => charged)) + usageCompacted;
  if (counted !== spent) {
    report('I7', `spent is ${usd(spent)}, but its days, keys and models come to ${usd(counted)}`);
  }
  if (available < floor) report('I4', `available is ${usd(available)}, below the floor of ${usd(floor)}`);

  const holds = new Map<string, { amount: NanoDollars; count: number }>();
  let total = 0n;
  for (const { state: requestState, amount, key } of requests) {
    if (requestState !== 'held') continue;
    total += amount;
    const hold = holds.get(key) ?? { amount: 0n, count: 0 };
    holds.set(key, { amount: hold.amount + amount, count: hold.count + 1 });
  }
  if (total !== held) report('I2', `held is ${usd(held)}, but its requests hold ${usd(total)}`);
  for (const key of keys) {
    const { amount, count } = holds.get(key.key) ?? { amount: 0n, count: 0 };
    holds.delete(key.key);
    if (key.held === amount && key.running === count) continue;
    report(
      'I2',
      `key ${key.key} has ${key.running} running with ${usd(key.held)} held, but its requests are ${count} with ${usd(amount)}`,
    );
  }
  for (const [key, { amount, count }] of holds) {
    report('I2', `${count} requests hold ${usd(amount)} for key ${key}, which there is not`);
  }
}

/** Reads the lines up to the snapshot's position, and says how many. */
async function verifyJournal(
  store: LedgerStore,
  account: string,
  state: AccountState,
  report: Report,
): Promise<number> {
  const { compacted } = state;
  const expected = state.seq - compacted.seq;
  const parts = Math.max(1, Math.ceil(Number(expected) / IDS_AT_ONCE));
  let read = 0;
  for (let part = 0; part < parts; part++) {
    const books = part === 0 ? new JournalVerifier(state, report) : undefined;
    const requests = new RequestVerifier(
      state,
      (id) => parts === 1 || partOf(id, parts) === part,
      (problem) => report('I3', problem),
    );
    for await (const line of linesUpTo(store, account, state)) {
      books?.add(line);
      requests.add(line);
      if (books) read += 1;
    }
    books?.close();
    requests.close();
  }
  return read;
}

/** The part of a journal that an id belongs to, where it is too long to be looked at in one. */
function partOf(id: string, parts: number): number {
  let code = 0;
  for (const character of id) code = (code * 31 + character.charCodeAt(0)) % 1_000_003;
  return code % parts;
}

async function* linesUpTo(
  store: LedgerStore,
  account: string,
  { seq, compacted }: AccountState,
): AsyncGenerator<JournalLine> {
  for (let after = compacted.seq; after < seq;) {
    const page = await store.journal(account, after, PAGE);
    for (const line of page) if (line.seq <= seq) yield line;
    const last = page.at(-1);
    if (!last || last.seq <= after) return;
    after = last.seq;
  }
}

/** Folds a journal, and compares what comes out with the books. */
class JournalVerifier {
  readonly #state: AccountState;
  readonly #report: Report;
  #seq: bigint;
  #granted: NanoDollars;
  #spent: NanoDollars;
  #expired: NanoDollars;
  #writtenOff: NanoDollars;
  /** What was available after the line before; undefined before the first. */
  #available: NanoDollars | undefined;

  constructor(state: AccountState, report: Report) {
    this.#state = state;
    this.#report = report;
    const { seq, granted, spent, expired, writtenOff } = state.compacted;
    [this.#seq, this.#granted, this.#spent, this.#expired, this.#writtenOff] = [
      seq,
      granted,
      spent,
      expired,
      writtenOff,
    ];
  }

  add(line: JournalLine): void {
    const { type, seq, amount, available, hold = 0n } = line;
    if (seq !== this.#seq + 1n) this.#report('I6', `line ${seq} follows line ${this.#seq}`);
    this.#seq = seq;
    this.#writtenOff += line.writtenOff ?? 0n;
    if (type === 'g' || type === 'a') this.#granted += amount;
    else if (type === 'x') this.#expired += amount;
    else this.#spent += amount;

    const most = this.#granted - this.#spent - this.#expired;
    if (available > most) {
      this.#report('I6', `line ${seq} left ${usd(available)} available of ${usd(most)} there was`);
    }
    this.#checkOverrun(line, type === 'g' || type === 'a' ? -amount : amount - hold);
    const { floor } = this.#state;
    if (available < floor) {
      this.#report('I4', `line ${seq} left ${usd(available)} available, below the floor of ${usd(floor)}`);
    }
    this.#available = available;
  }

  /** @param taken - what the line took from what was available before it */
  #checkOverrun({ type, seq, amount, available, hold = 0n }: JournalLine, taken: NanoDollars): void {
    const before = available + taken;
    if (before < 0n && this.#available !== undefined && this.#available >= 0n) {
      this.#report('I5', `before line ${seq}, holds took what was available to ${usd(before)}`);
    }
    if (type === 'e' && amount > hold) {
      this.#report('I5', `line ${seq} charged ${usd(amount)} for a lease that ended with ${usd(hold)} held`);
    }
    if (type === 'x' && available < 0n) {
      this.#report('I5', `line ${seq} expired ${usd(amount)} and left ${usd(available)} available`);
    }
  }

  close(): void {
    const { seq, granted, spent, expired, writtenOff } = this.#state;
    if (this.#seq !== seq) {
      this.#report('I6', `the journal ends with line ${this.#seq}, but the last one written is ${seq}`);
    }
    this.#compare('granted', granted, this.#granted);
    this.#compare('spent', spent, this.#spent);
    this.#compare('expired', expired, this.#expired);
    this.#compare('written off', writtenOff, this.#writtenOff);
  }

  #compare(what: string, books: NanoDollars, journal: NanoDollars): void {
    if (books !== journal) {
      this.#report('I6', `${what} is ${usd(books)}, but its journal comes to ${usd(journal)}`);
    }
  }
}

function sum(amounts: readonly NanoDollars[]): NanoDollars {
  return amounts.reduce((total, amount) => total + amount, 0n);
}

const usd = formatUsd;
