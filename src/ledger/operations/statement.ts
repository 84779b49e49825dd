import { type CompactedSums, compactedSums } from '../contract/compacted-sums.ts';
import type { JournalLine, LedgerStore } from '../contract/ledger-store.ts';
import { formatUsd, type NanoDollars } from '../contract/money.ts';
import { csvLine } from '../../platform/csv-line.ts';
import { creditsEntry, type CreditsEntry } from './journal-entries.ts';

/**
 * What happened to an account's credits in a month, UTC. Amounts are decimal strings in USD:
 * `closing = opening + granted + adjusted - expired - charged + refunded`.
 */
export interface Statement {
  readonly account: string;
  /** As `2026-11`. */
  readonly month: string;
  readonly from: Date;
  /** Exclusive. */
  readonly to: Date;
  /** The balance at the beginning, with what was held; negative for what was owed. */
  readonly opening: string;
  /** Grants, those of allowances included. */
  readonly granted: string;
  /** Adjustments, up and down. */
  readonly adjusted: string;
  readonly expired: string;
  readonly charged: string;
  readonly refunded: string;
  /** The balance at the end, or now in the current month, with what is held. */
  readonly closing: string;
  /** What was consumed beyond the balance, and not charged. */
  readonly writtenOff: string;
  /** By model and key, in that order. */
  readonly charges: readonly StatementCharge[];
  /** The same charges by end user, if requests had some: see `dimensions`. Together they are `charged` too. */
  readonly endUsers: readonly StatementEndUser[];
  /** Grants, adjustments and expiries, oldest first. */
  readonly credits: readonly CreditsEntry[];
}

export interface StatementCharge extends StatementSum {
  /** Empty where unknown. */
  readonly model: string;
  readonly key: string;
}

export interface StatementEndUser extends StatementSum {
  /** Empty for requests without one. */
  readonly user: string;
}

interface StatementSum {
  /** Requests that were settled, or whose lease ran out. */
  readonly requests: number;
  readonly charged: string;
  readonly refunded: string;
}

/** The statement can't be made, because lines of its month were compacted. */
export class StatementCompactedError extends Error {
  override readonly name = 'StatementCompactedError';
  readonly code = 'journal_compacted';

  constructor(account: string, month: string, until: Date) {
    super(
      `the statement of account ${account} for ${month} can't be made: its journal was compacted up to ${until.toISOString()}`,
    );
  }
}

/** Undefined when there is no such account. */
export async function makeStatement(
  store: LedgerStore,
  account: string,
  month: string,
): Promise<Statement | undefined> {
  const { from, to } = monthRange(month);
  const compacted = await compactedOf(store, account);
  if (!compacted) return undefined;
  if (compacted.seq > 0n && compacted.at >= from) {
    throw new StatementCompactedError(account, month, new Date(compacted.at));
  }
  const sums = new StatementSums(compacted.granted - compacted.spent - compacted.expired);
  // A clock that was set back makes no line belong to an earlier month than the line before it.
  let latest = compacted.at;
  for (let after = compacted.seq; ;) {
    const lines = await store.journal(account, after, PAGE);
    for (const line of lines) {
      latest = Math.max(latest, line.at);
      if (latest >= to) return sums.statement(account, month, from, to);
      if (latest < from) sums.skip(line);
      else sums.add(line);
    }
    const last = lines.at(-1);
    if (!last) return sums.statement(account, month, from, to);
    after = last.seq;
  }
}

/** The sums of compacted lines. */
async function compactedOf(store: LedgerStore, account: string): Promise<CompactedSums | undefined> {
  const [first] = await store.journal(account, 0n, 1);
  if (first?.seq === 1n) return NOTHING_COMPACTED;
  return await compactedSums(store, account);
}

const NOTHING_COMPACTED: CompactedSums = {
  seq: 0n,
  at: 0,
  granted: 0n,
  spent: 0n,
  expired: 0n,
  writtenOff: 0n,
};
const PAGE = 1000;

function monthRange(month: string): { readonly from: number; readonly to: number } {
  const [, year, number] = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(month) ?? [];
  if (year === undefined || number === undefined) {
    throw new TypeError(`month must be a month, as "2026-11", got ${JSON.stringify(month)}`);
  }
  const from = Date.parse(`${month}-01T00:00Z`);
  const date = new Date(from);
  return { from, to: date.setUTCMonth(date.getUTCMonth() + 1) };
}

interface ChargeSums {
  requests: number;
  charged: NanoDollars;
  refunded: NanoDollars;
}

/** Sums of charges that have the same names. */
class ChargeTable<Names extends object> {
  readonly #rows = new Map<string, Names & ChargeSums>();

  of(names: Names): ChargeSums {
    const id = JSON.stringify(Object.values(names));
    const row = this.#rows.get(id) ?? { ...names, requests: 0, charged: 0n, refunded: 0n };
    this.#rows.set(id, row);
    return row;
  }

  /** Rows that count something, in the order of their names. */
  rows(): (Names & StatementSum)[] {
    return [...this.#rows]
      .filter(([, row]) => row.requests !== 0 || row.charged !== 0n || row.refunded !== 0n)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([, row]) => ({ ...row, charged: formatUsd(row.charged), refunded: formatUsd(row.refunded) }));
  }
}

class StatementSums {
  #opening: NanoDollars;
  readonly #totals = { granted: 0n, adjusted: 0n, expired: 0n, charged: 0n, refunded: 0n, writtenOff: 0n };
  readonly #charges = new ChargeTable<{ readonly model: string; readonly key: string }>();
  readonly #endUsers = new ChargeTable<{ readonly user: string }>();
  readonly #credits: CreditsEntry[] = [];
  /** What requests were charged when their lease ran out. */
  readonly #expired = new Map<string, NanoDollars>();

  constructor(opening: NanoDollars) {
    this.#opening = opening;
  }

  /** A line before the month. */
  skip({ type, amount }: JournalLine): void {
    this.#opening += type === 'g' || type === 'a' ? amount : -amount;
  }

  add(line: JournalLine): void {
    const totals = this.#totals;
    totals.writtenOff += line.writtenOff ?? 0n;
    switch (line.type) {
      case 'g':
        totals.granted += line.amount;
        break;
      case 'a':
        totals.adjusted += line.amount;
        break;
      case 'x':
        totals.expired += line.amount;
        break;
      default:
        this.#addCharge(line);
        return;
    }
    this.#credits.push(creditsEntry(line));
  }

  #addCharge({ type, id, amount, key = '', model = '', usage, dimensions }: JournalLine): void {
    const places = [
      this.#charges.of({ model, key }),
      this.#endUsers.of({ user: dimensions?.['user'] ?? '' }),
    ];
    if (type === 'r') {
      for (const sums of places) sums.refunded -= amount;
      this.#totals.refunded -= amount;
      return;
    }
    this.#totals.charged += amount;
    for (const sums of places) {
      sums.charged += amount;
      // Others correct a charge that was counted, or are a further part of one.
      if (type !== 'l') sums.requests += 1;
    }
    if (type === 'e') this.#expired.set(id, amount);
    const expired = type === 'l' && usage ? this.#expired.get(id) : undefined;
    if (expired === undefined) return;
    // The model and end user of a request whose lease ran out are known only once it is settled.
    const unknown = [this.#charges.of({ model: '', key }), this.#endUsers.of({ user: '' })];
    for (const [n, sums] of unknown.entries()) moveCharge(expired, sums, places[n] ?? sums);
  }

  statement(account: string, month: string, from: number, to: number): Statement {
    const { granted, adjusted, expired, charged, refunded, writtenOff } = this.#totals;
    const endUsers = this.#endUsers.rows();
    return {
      account,
      month,
      from: new Date(from),
      to: new Date(to),
      opening: formatUsd(this.#opening),
      granted: formatUsd(granted),
      adjusted: formatUsd(adjusted),
      expired: formatUsd(expired),
      charged: formatUsd(charged),
      refunded: formatUsd(refunded),
      closing: formatUsd(this.#opening + granted + adjusted - expired - charged + refunded),
      writtenOff: formatUsd(writtenOff),
      charges: this.#charges.rows(),
      endUsers: endUsers.some(({ user }) => user !== '') ? endUsers : [],
      credits: this.#credits,
    };
  }
}

function moveCharge(charged: NanoDollars, from: ChargeSums, to: ChargeSums): void {
  from.requests -= 1;
  from.charged -= charged;
  to.requests += 1;
  to.charged += charged;
}

/** A statement as CSV by RFC 4180, each line with its end: the opening balance, credits, charges, the closing balance. */
export function statementCsv({ from, to, opening, closing, credits, charges }: Statement): string {
  const rows = [
    ['type', 'at', 'id', 'model', 'key', 'requests', 'amount', 'reason'],
    ['opening', from.toISOString(), '', '', '', '', opening, ''],
    ...credits.map(({ type, at, id, amount, reason = '' }) => {
      const signed = type === 'expired_credit' ? negative(amount) : amount;
      return [type, at.toISOString(), id, '', '', '', signed, reason];
    }),
    ...charges.flatMap(({ model, key, requests, charged, refunded }) => [
      ['charge', '', '', model, key, String(requests), negative(charged), ''],
      ...(refunded === '0.00' ? [] : [['refund', '', '', model, key, '', refunded, '']]),
    ]),
    ['closing', to.toISOString(), '', '', '', '', closing, ''],
  ];
  return rows.map((row) => `${csvLine(row)}\r\n`).join('');
}

function negative(amount: string): string {
  if (amount === '0.00') return amount;
  return amount.startsWith('-') ? amount.slice(1) : `-${amount}`;
}
