import { isAccount } from '../contract/account-ids.ts';
import { RequestVerifier } from './verify-requests.ts';
import type { Counters, EndUserState } from '../contract/key-records.ts';
import type { AccountState, JournalLine, LedgerStore, RequestRecord } from '../contract/ledger-store.ts';
import { formatUsd, type NanoDollars } from '../contract/money.ts';
import { optionsObject } from '../../platform/options-object.ts';

/**
 * Verification of a store: recomputes the totals of each account from its records and journal.
 *
 * - I1 conservation: granted = available + held + spent + expired, and open lots are covered
 * - I2 holds: the held amount is the sum of the held requests, for the account and for each key
 * - I3 once: each request is posted once, possibly in parts, and agrees with its record
 * - I4 no overspend: available is not below the lowest floor that there was, or that an operator forced
 * - I5 overrun: holds don't take available below that floor
 * - I6 journal: the journal has no gaps and adds up to the totals
 * - I7 usage: the charges of the usage rows add up to what was charged, and no dimension counts more requests than they do
 */

/** A violated invariant, caused by a bug or by changes to the store from outside. */
export interface Finding {
  readonly account: string;
  readonly invariant: 'I1' | 'I2' | 'I3' | 'I4' | 'I5' | 'I6' | 'I7';
  /** Of the request that it is about; undefined if it is about none alone. */
  readonly requestId?: string;
  /** What is wrong, with the numbers. */
  readonly message: string;
}

export interface AccountVerification {
  readonly account: string;
  /** Number of journal lines that were read. */
  readonly lines: number;
  /** Empty if nothing is wrong; at most the first hundred. */
  readonly findings: readonly Finding[];
}

export interface VerifyLedgerOptions {
  /** @default all accounts */
  readonly account?: string;
}

/**
 * Verifies the totals of a store, account by account. The store may be in use.
 *
 * Memory is bounded by the largest number of request records of an account, not by accounts or journals.
 *
 * @throws StoreUnavailableError, and an Error when a journal is compacted faster than it can be read
 */
export async function* verifyLedger(
  store: LedgerStore,
  options: VerifyLedgerOptions = {},
): AsyncGenerator<AccountVerification, void, undefined> {
  const { account } = optionsObject(options, { account: true });
  if (account !== undefined) {
    yield await verifyAccount(store, account);
    return;
  }
  for await (const each of store.accounts()) {
    yield await verifyListed(store, each);
  }
}

/** Verifies an account that the store has listed. */
export async function verifyListed(store: LedgerStore, account: string): Promise<AccountVerification> {
  // The store can't be queried for an invalid name, which only damage can cause.
  return isAccount(account) ? await verifyAccount(store, account) : misnamed(account);
}

function misnamed(account: string): AccountVerification {
  const message = `${JSON.stringify(account)} is not a valid account name`;
  return { account, lines: 0, findings: [{ account, invariant: 'I6', message }] };
}

const PAGE = 1000;
const MAX_FINDINGS = 100;
/** Maximum of ids in memory: a longer journal is read several times, each time for a part of its ids. */
const IDS_AT_ONCE = 100_000;
const TRIES = 10;

type Report = (invariant: Finding['invariant'], message: string, requestId?: string) => void;

/**
 * A snapshot is consistent, and the lines up to its position never change, so any difference is an error, unless lines
 * were compacted, or lost in a failover, between the two reads.
 */
async function verifyAccount(store: LedgerStore, account: string): Promise<AccountVerification> {
  for (let tries = 0; tries < TRIES; tries++) {
    const findings: Finding[] = [];
    const report: Report = (invariant, message, requestId) => {
      if (findings.length >= MAX_FINDINGS) return;
      findings.push({ account, invariant, ...(requestId !== undefined && { requestId }), message });
    };
    const state = await store.snapshot(account);
    if (!state) {
      report('I6', 'this account has no totals');
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
  throw new Error(`the journal of account ${account} is compacted faster than it can be read`);
}

/** Checks one snapshot. */
function verifyState(state: AccountState, report: Report): void {
  const {
    granted,
    available,
    held,
    spent,
    expired,
    lowestFloor,
    requests,
    keys,
    lots,
    usage,
    usageCompacted,
  } = state;
  const accounted = available + held + spent + expired;
  if (granted !== accounted) {
    report(
      'I1',
      `granted is ${usd(granted)}, but available ${usd(available)} + held ${usd(held)} + spent ${usd(spent)} + expired ${usd(expired)} is ${usd(accounted)}`,
    );
  }
  const remaining = sum(lots.map((lot) => lot.remaining));
  if (remaining > 0n && remaining > available + held) {
    report('I1', `open lots total ${usd(remaining)}, but available + held is ${usd(available + held)}`);
  }
  const counted = sum(usage.map(({ charged }) => charged)) + usageCompacted;
  if (counted !== spent) {
    report('I7', `spent is ${usd(spent)}, but its usage rows total ${usd(counted)}`);
  }
  verifyDimensions(state, report);
  if (available < lowestFloor) {
    report('I4', `available is ${usd(available)}, below the floor of ${usd(lowestFloor)}`);
  }

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
  verifyHolders(state, report);
  for (const [key, { amount, count }] of holds) {
    report('I2', `${count} requests hold ${usd(amount)} for key ${key}, which doesn't exist`);
  }
}

function verifyDimensions({ usage, dimensionUsage }: AccountState, report: Report): void {
  const total = new Map<string, number>();
  for (const { day, requests } of usage) total.set(day, (total.get(day) ?? 0) + requests);
  const counted = new Map<string, number>();
  for (const { day, dimension, requests } of dimensionUsage) {
    const place = `${day} ${dimension}`;
    counted.set(place, (counted.get(place) ?? 0) + requests);
  }
  for (const [place, requests] of counted) {
    const [day = '', dimension] = place.split(' ');
    const most = total.get(day) ?? 0;
    if (requests > most)
      report('I7', `${dimension} counts ${requests} requests of ${day}, which had ${most}`);
  }
}

/** Checks what counts against the limits of the account and of its end users. */
function verifyHolders({ requests, policy, endUsers }: AccountState, report: Report): void {
  const running = requests.filter(({ state }) => state === 'held');
  const check = (who: string, holder: Counters | undefined, own: readonly RequestRecord[]): void => {
    const amount = sum(own.map((request) => request.amount));
    if ((holder?.held ?? 0n) === amount && (holder?.running ?? 0) === own.length) return;
    report(
      'I2',
      `${who} has ${holder?.running ?? 0} running with ${usd(holder?.held ?? 0n)} held, but its requests are ${own.length} with ${usd(amount)}`,
    );
  };
  check(
    'the policy of the account',
    policy,
    running.filter(({ inAccount }) => inAccount),
  );
  const named = ({ key = '', endUser }: Pick<EndUserState, 'key' | 'endUser'>): string => `${key}~${endUser}`;
  const ofUser = Map.groupBy(
    running.filter(({ endUser }) => endUser),
    ({ endUser }) => named(endUser ?? { endUser: '' }),
  );
  const users = new Map(endUsers.map((user) => [named(user), user]));
  for (const name of new Set([...ofUser.keys(), ...users.keys()])) {
    check(`end user ${name}`, users.get(name), ofUser.get(name) ?? []);
  }
}

/** Reads and checks the lines up to the snapshot's position; returns how many. */
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
    const journal = part === 0 ? new JournalVerifier(state, report) : undefined;
    const requests = new RequestVerifier(
      state,
      (id) => parts === 1 || partOf(id, parts) === part,
      (id, problem) => report('I3', `request ${id} ${problem}`, id),
    );
    for await (const line of linesUpTo(store, account, state)) {
      journal?.add(line);
      requests.add(line);
      if (journal) read += 1;
    }
    journal?.close();
    requests.close();
  }
  return read;
}

/** The part of a long journal that an id belongs to. */
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

/** Adds up a journal, and compares the sums with the totals. */
class JournalVerifier {
  readonly #state: AccountState;
  readonly #report: Report;
  #seq: bigint;
  #granted: NanoDollars;
  #spent: NanoDollars;
  #expired: NanoDollars;
  #writtenOff: NanoDollars;
  /** `available` after the previous line; undefined before the first. */
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
      this.#report(
        'I6',
        `line ${seq} left ${usd(available)} available, but only ${usd(most)} was granted and not used`,
      );
    }
    this.#checkOverrun(line, type === 'g' || type === 'a' ? -amount : amount - hold);
    const { lowestFloor } = this.#state;
    if (available < lowestFloor) {
      this.#report(
        'I4',
        `line ${seq} left ${usd(available)} available, below the floor of ${usd(lowestFloor)}`,
      );
    }
    this.#available = available;
  }

  /** @param taken - by how much the line reduced `available` */
  #checkOverrun({ type, seq, amount, available, hold = 0n }: JournalLine, taken: NanoDollars): void {
    const before = available + taken;
    const { lowestFloor } = this.#state;
    if (before < lowestFloor && (this.#available ?? before) >= lowestFloor) {
      this.#report('I5', `before line ${seq}, holds reduced available to ${usd(before)}`);
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

  #compare(what: string, total: NanoDollars, journal: NanoDollars): void {
    if (total !== journal) {
      this.#report('I6', `${what} is ${usd(total)}, but its journal totals ${usd(journal)}`);
    }
  }
}

function sum(amounts: readonly NanoDollars[]): NanoDollars {
  return amounts.reduce((total, amount) => total + amount, 0n);
}

const usd = formatUsd;
