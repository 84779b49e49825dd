import { isDimension, tagDimension } from '../../ledger/contract/usage.ts';
import {
  createUsageQueries,
  memberOf,
  type UsageGroup,
  type UsageSummary,
} from '../../ledger/operations/usage-queries.ts';
import { csvLine } from '../../ledger/operations/csv.ts';
import { formatUsd, parseUsd } from '../../ledger/contract/money.ts';
import { type StoreCommand, usd, UsageError } from './command.ts';
import { table } from '../terminal/table.ts';

const GROUPS: readonly UsageGroup[] = ['day', 'account', 'key', 'model', 'user', 'provider'];

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
  summary: 'Show usage by day, account, key and model, or by end user, provider or tag',
  store: 'exists',
  positionals: '',
  options: {
    by: {
      value: 'NAMES',
      choices: [...GROUPS, 'total'],
      pattern: /^tag:/,
      isList: true,
      help: 'group by day, account, key, model, e.g. --by account,model; user, provider or tag:NAME, alone or with day and account; total for a single row',
    },
    from: { value: 'DAY', help: 'first day, UTC, e.g. 2026-11-01; default: 29 days before the last' },
    to: { value: 'DAY', help: 'last day, inclusive; default: today' },
    account: { value: 'ACCOUNT', help: 'only this account' },
    key: { value: 'ID', help: 'only this API key' },
    model: { value: 'MODEL', help: 'only this model' },
    csv: { help: 'print CSV, for spreadsheets' },
  },
  examples: [
    'usage --by account,model --from 2026-11-01',
    'usage --by user --account acme',
    'usage --by provider,day',
    'usage --by day --csv > usage.csv',
  ],
  async run({ options, store, print }) {
    const { from, to, account, key, model, json, csv } = options;
    if (json !== undefined && csv !== undefined) throw new UsageError('--json and --csv exclude each other');
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
    const group =
      GROUPS.find((each) => each === name) ?? (isDimension(name) ? tagDimension(name.slice(4)) : undefined);
    if (!group && name !== 'total')
      throw new UsageError(`--by: a tag is tag:NAME, got ${JSON.stringify(name)}`);
    if (!group) throw new UsageError(`--by: total must stand alone, got ${JSON.stringify(given)}`);
    if (names.indexOf(name) < n) {
      throw new UsageError(`--by must name each group once, got ${JSON.stringify(given)}`);
    }
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
  if (rows.length === 0) return ['no usage'];
  const heads = [...groupBy.map((group) => group.toUpperCase()), ...HEADS];
  const cells = rows.map((row) => [
    ...namesOf(row, groupBy),
    ...COUNTS.map((name) => String(row[name])),
    usd(row.charged),
    shownCost(row.cost),
  ]);
  if (rows.length > 1) {
    const names = groupBy.map((_group, n) => (n === 0 ? 'TOTAL' : ''));
    const counts = COUNTS.map((name) => String(rows.reduce((sum, row) => sum + row[name], 0)));
    const [charged, cost] = MONEY.map((name) =>
      formatUsd(rows.reduce((sum, row) => sum + parseUsd(row[name], name), 0n)),
    );
    cells.push([...names, ...counts, usd(charged ?? ''), shownCost(cost ?? '')]);
  }
  return table(heads, cells);
}

/** A cost of zero is one that no price told: what costs nothing isn't told apart. */
function shownCost(cost: string): string {
  return /^[0.]+$/.test(cost) ? '–' : usd(cost);
}

function asCsv(rows: readonly UsageSummary[], groupBy: readonly UsageGroup[]): string[] {
  const heads = [...groupBy, ...COUNTS, ...MONEY];
  const cells = rows.map((row) => [
    ...namesOf(row, groupBy),
    ...COUNTS.map((name) => String(row[name])),
    ...MONEY.map((name) => row[name]),
  ]);
  return [heads, ...cells].map(csvLine);
}

function namesOf(row: UsageSummary, groupBy: readonly UsageGroup[]): string[] {
  return groupBy.map((group) => row[memberOf(group)] ?? '');
}
