import { type CompactedSums, compactedSums } from '../contract/compacted-sums.ts';
import type { Dimensions, JournalLine, LedgerStore, SettledUsage } from '../contract/ledger-store.ts';
import { formatUsd } from '../contract/money.ts';

/** One change of a balance. */
export interface CreditsEntry {
  /** Position in the account's journal, from 1. */
  readonly position: number;
  /**
   * A `late_charge` corrects the charge of an `expired_hold`, up or down; without `usage`, it is a further part of a
   * charge that the balance didn't cover after a failover. An `orphan_charge` is for a request whose hold was lost.
   */
  readonly type:
    | 'grant'
    | 'charge'
    | 'late_charge'
    | 'orphan_charge'
    | 'expired_hold'
    | 'expired_credit'
    | 'adjustment'
    | 'refund';
  readonly at: Date;
  /** The request's, grant's or adjustment's id. */
  readonly id: string;
  /** The request's, which is the `x-request-id` of its answer; undefined for a change that is about none. */
  readonly requestId?: string;
  readonly amount: string;
  /** What could be spent after the change. */
  readonly balance: string;
  readonly held?: string;
  readonly writtenOff?: string;
  readonly key?: string;
  readonly model?: string;
  readonly usage?: Omit<SettledUsage, 'cost'> & { readonly cost?: string };
  /** As `{ user: 'u-17', 'tag:feature': 'search' }`: see the option `dimensions`. */
  readonly dimensions?: Dimensions;
  readonly reason?: string;
}

const TYPES: Record<JournalLine['type'], CreditsEntry['type']> = {
  g: 'grant',
  s: 'charge',
  l: 'late_charge',
  o: 'orphan_charge',
  e: 'expired_hold',
  x: 'expired_credit',
  a: 'adjustment',
  r: 'refund',
};

/** Of changes that are about no request. */
const WITHOUT_REQUEST: ReadonlySet<JournalLine['type']> = new Set(['g', 'x', 'a']);

/** A journal line in its public form. */
export function creditsEntry({ type, seq, at, id, amount, available, ...line }: JournalLine): CreditsEntry {
  const { hold, writtenOff, key, model, usage, dimensions, reason } = line;
  return {
    position: Number(seq),
    type: TYPES[type],
    at: new Date(at),
    id,
    ...(!WITHOUT_REQUEST.has(type) && { requestId: id }),
    amount: formatUsd(amount),
    balance: formatUsd(available),
    ...(hold !== undefined && { held: formatUsd(hold) }),
    ...(writtenOff !== undefined && { writtenOff: formatUsd(writtenOff) }),
    ...(key !== undefined && { key }),
    ...(model !== undefined && { model }),
    ...(usage && { usage: usageEntry(usage) }),
    ...(dimensions && { dimensions }),
    ...(reason !== undefined && { reason }),
  };
}

function usageEntry({ cost, ...usage }: SettledUsage): NonNullable<CreditsEntry['usage']> {
  return { ...usage, ...(cost !== undefined && { cost: formatUsd(cost) }) };
}

const PAGE = 1000;

/** A line of an exported journal, which is complete by itself. */
export type ExportedEntry = {
  readonly account: string;
  /** The same in every export. */
  readonly event: string;
} & (CreditsEntry | CompactedEntries);

/** What all entries up to a position come to, which were compacted. */
export interface CompactedEntries {
  /** Of the last one. */
  readonly position: number;
  readonly type: 'compacted';
  readonly granted: string;
  readonly charged: string;
  readonly expired: string;
  readonly writtenOff: string;
}

/**
 * The journal of an account, from after a position on.
 *
 * If lines after `after` were compacted already, the first entry has the type `compacted`. It has the sums of all lines up
 * to its position, and replaces them; so does a later one, if lines are compacted meanwhile.
 */
export async function* exportAccount(
  store: LedgerStore,
  account: string,
  after: number,
): AsyncGenerator<ExportedEntry, void, undefined> {
  let position = BigInt(after);
  for (;;) {
    const lines = await store.journal(account, position, PAGE);
    const [first] = lines;
    // Also where there is no line: all that were left may have been compacted.
    if (!first || first.seq > position + 1n) {
      const compacted = await compactedSums(store, account);
      if (compacted && compacted.seq > position) {
        yield compactedEntry(account, compacted);
        position = compacted.seq;
        continue;
      }
      if (first) {
        throw new Error(
          `the journal of account ${account} is missing line ${position + 1n}: the next line is ${first.seq}`,
        );
      }
    }
    if (!first) return;
    for (const line of lines) yield { account, event: eventId(account, line), ...creditsEntry(line) };
    position = lines.at(-1)?.seq ?? position;
  }
}

function compactedEntry(account: string, compacted: CompactedSums): ExportedEntry {
  return {
    account,
    event: `${account}:compacted:${compacted.seq}`,
    position: Number(compacted.seq),
    type: 'compacted',
    granted: formatUsd(compacted.granted),
    charged: formatUsd(compacted.spent),
    expired: formatUsd(compacted.expired),
    writtenOff: formatUsd(compacted.writtenOff),
  };
}

/**
 * Identifies the change independently of its position: a charge that a failover lost and that was posted again is the same
 * event at another position.
 */
function eventId(account: string, { type, id, seq, amount, usage }: JournalLine): string {
  const kind = type === 'o' ? TYPES.s : TYPES[type];
  const isOneOfSeveral = type === 'x' || (type === 'l' && !usage && amount > 0n);
  return [account, kind, id, ...(isOneOfSeveral ? [seq] : [])].join(':');
}
