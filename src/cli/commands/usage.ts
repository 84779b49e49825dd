import {
  createUsageQueries,
  type UsageGroup,
  type UsageSummary,
} from '../../ledger/operations/usage-queries.ts';
import { formatUsd, parseUsd } from '../../ledger/contract/money.ts';
import { type StoreCommand, UsageError } from './command.ts';
import { table } from '../terminal/table.ts';

const GROUPS: readonly UsageGroup[] = ['day', 'account', 'key', 'model'];

const COUNTS = [
  'requests',
  'errors',
  'aborted',
  'promptTokens',
  'cachedTokens',
  'completionTokens',
  'reasoningTokens',
] as const;

const MONEY = ['charged', 'cost'] as const;

export const usageCommand: StoreCommand = {
  name: 'usage',
  summary: 'Show what was used, by day, account, key and model',
  store: 'exists',
  positionals: '',
  options: {
    by: {
      value: 'NAMES',
      help: 'a row for each of: day, account, key, model, as --by account,model; total for one',
    },
    from: { value: 'DAY', help: 'first day, UTC, as 2026-11-01; 29 days before the last by default' },
    to: { value: 'DAY', help: 'last day, counted in; today by default' },
    account: { value: 'ACCOUNT', help: 'of this one only' },
    key: { value: 'ID', help: 'of this API key only' },
    model: { value: 'MODEL', help: 'of this model only' },
    csv: { help: 'print CSV, for a spreadsheet' },
  },
  async run({ options, store, print }) {
    const { from, to, account, key, model, json, csv } = options;
    if (json !== undefined && csv !== undefined)
      throw new UsageError('--json and --csv are two forms: give one');
    const groupBy = groupsOf(options['by'] ?? 'day');
    const rows = await createUsageQueries(store, Date.now).query({
      groupBy,
      ...(from !== undefined && { from }),
      ...(to !== undefined && { to }),
      ...(account !== undefined && { account }),
      ...(key !== undefined && { key }),
      ...(model !== undefined && { model }),
    });
    if (json !== undefined) for (const row of rows) print('', row);
    else
      for (const line of csv === undefined ? asTable(rows, groupBy) : asCsv(rows, groupBy)) print(line, {});
    return true;
  },
};

function groupsOf(given: string): readonly UsageGroup[] {
  if (given === 'total') return [];
  return given.split(',').map((name, n, names) => {
    const group = GROUPS.find((each) => each === name);
    if (!group)
      throw new UsageError(`--by takes ${GROUPS.join(', ')}, or total, got ${JSON.stringify(name)}`);
    if (names.indexOf(name) < n) throw new UsageError(`--by takes each once, got ${JSON.stringify(given)}`);
    return group;
  });
}

const HEADS = [
  'REQUESTS',
  'ERRORS',
  'ABORTED',
  'PROMPT',
  'CACHED',
  'COMPLETION',
  'REASONING',
  'CHARGED',
  'COST',
];

function asTable(rows: readonly UsageSummary[], groupBy: readonly UsageGroup[]): string[] {
  if (rows.length === 0) return ['nothing was used'];
  const heads = [...groupBy.map((group) => group.toUpperCase()), ...HEADS];
  const cells = rows.map((row) => cellsOf(row, groupBy));
  if (rows.length > 1) {
    const names = groupBy.map((_group, n) => (n === 0 ? 'TOTAL' : ''));
    const counts = COUNTS.map((name) => String(rows.reduce((sum, row) => sum + row[name], 0)));
    const money = MONEY.map((name) =>
      formatUsd(rows.reduce((sum, row) => sum + parseUsd(row[name], name), 0n)),
    );
    cells.push([...names, ...counts, ...money]);
  }
  return table(heads, cells);
}

function asCsv(rows: readonly UsageSummary[], groupBy: readonly UsageGroup[]): string[] {
  const heads = [...groupBy, ...COUNTS, ...MONEY];
  return [heads, ...rows.map((row) => cellsOf(row, groupBy))].map((cells) => cells.map(csvCell).join(','));
}

function cellsOf(row: UsageSummary, groupBy: readonly UsageGroup[]): string[] {
  return [
    ...groupBy.map((group) => row[group] ?? ''),
    ...COUNTS.map((name) => String(row[name])),
    ...MONEY.map((name) => row[name]),
  ];
}

/** As RFC 4180 quotes; an apostrophe keeps a spreadsheet from running what a client has called a model. */
function csvCell(cell: string): string {
  const text = /^[=+@\t\r]|^-(?!\d+(\.\d+)?$)/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
