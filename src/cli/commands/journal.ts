import { exportAccount, type ExportedEntry } from '../../ledger/operations/journal-entries.ts';
import type { LedgerStore } from '../../ledger/contract/ledger-store.ts';
import type { Column } from '../terminal/listing.ts';
import { type StoreCommand, usd, wholeNumber, UsageError } from './command.ts';

export const journalCommand: StoreCommand = {
  name: 'journal',
  summary: 'Print the journal of one account or all; with --json the whole of it, to keep elsewhere',
  store: 'exists',
  positionals: '[ACCOUNT]',
  printsRows: true,
  examples: ['journal acme', 'journal --json > journal.jsonl', 'journal acme --after 1200 --csv'],
  options: { after: { value: 'POSITION', help: 'start after this position; default: 0' } },
  async run({ positionals: [account], options, store, list }) {
    const after = wholeNumber(options['after'] ?? '0', '--after');
    if (account === undefined && after > 0) throw new UsageError('--after requires an ACCOUNT');
    await list({ columns: COLUMNS, rows: entriesOf(store, account, after), none: 'no entries' });
    return true;
  },
};

async function* entriesOf(
  store: LedgerStore,
  account: string | undefined,
  after: number,
): AsyncGenerator<ExportedEntry, void, undefined> {
  for await (const each of account === undefined ? store.accounts() : [account]) {
    yield* exportAccount(store, each, after);
  }
}

type Entry = Exclude<ExportedEntry, { readonly type: 'compacted' }>;

/** Of an entry; nothing of the sums of those that were compacted. */
function ofEntry(name: keyof Entry, more: Partial<Column<ExportedEntry>> = {}): Column<ExportedEntry> {
  return {
    name,
    value: (row) => {
      const value = row.type === 'compacted' ? undefined : row[name];
      return value instanceof Date || typeof value !== 'object' ? value : JSON.stringify(value);
    },
    ...more,
  };
}

function ofAmount(name: 'amount' | 'balance'): Column<ExportedEntry> {
  return ofEntry(name, { shown: (row) => (row.type === 'compacted' ? '–' : usd(row[name])) });
}

function ofUsage(
  name: keyof NonNullable<Entry['usage']>,
  more: Partial<Column<ExportedEntry>> = { isOnlyCsv: true },
): Column<ExportedEntry> {
  return { name, value: (row) => (row.type === 'compacted' ? undefined : row.usage?.[name]), ...more };
}

const COLUMNS: readonly Column<ExportedEntry>[] = [
  { name: 'account', value: ({ account }) => account },
  { name: 'position', value: ({ position }) => position },
  ofEntry('at'),
  { name: 'type', value: ({ type }) => type },
  { name: 'event', value: ({ event }) => event, isOnlyCsv: true },
  // That of a request has a column of its own.
  ofEntry('id', { shown: (row) => (row.type === 'compacted' || row.requestId !== undefined ? '–' : row.id) }),
  ofEntry('requestId', { head: 'REQUEST' }),
  ofAmount('amount'),
  ofAmount('balance'),
  ofEntry('held', { isOnlyCsv: true }),
  ofEntry('writtenOff', { isOnlyCsv: true }),
  ofEntry('key'),
  ofEntry('model'),
  ofUsage('provider'),
  ofUsage('promptTokens', { head: 'PROMPT' }),
  ofUsage('cachedTokens'),
  ofUsage('completionTokens', { head: 'COMPLETION' }),
  ofUsage('reasoningTokens'),
  ofUsage('cost'),
  ofUsage('source'),
  ofUsage('ending'),
  ofEntry('dimensions', { isOnlyCsv: true }),
  ofEntry('reason'),
];
