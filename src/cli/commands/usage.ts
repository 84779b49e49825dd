import { isDimension, tagDimension } from '../../ledger/contract/usage.ts';
import {
  createUsageQueries,
  memberOf,
  type UsageGroup,
  type UsageSummary,
} from '../../ledger/operations/usage-queries.ts';
import { formatUsd, parseUsd } from '../../ledger/contract/money.ts';
import { amountColumn, type StoreCommand, usd, UsageError } from './command.ts';
import type { Column } from '../terminal/listing.ts';

const GROUPS: readonly UsageGroup[] = ['day', 'account', 'key', 'model', 'user', 'provider'];

/** The counts, with their heads. */
const COUNTS = [
  ['requests', 'REQUESTS'],
  ['errors', 'ERRORS'],
  ['aborted', 'ABORTED'],
  ['promptTokens', 'PROMPT'],
  ['cachedTokens', 'CACHED'],
  ['completionTokens', 'COMPLETION'],
  ['reasoningTokens', 'REASONING'],
] as const;

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
      alias: 'group-by',
      help: 'group by day, account, key, model, e.g. --by account,model; user, provider or tag:NAME, alone or with day and account; total for a single row',
    },
    from: { value: 'DAY', help: 'first day, UTC, e.g. 2026-11-01; default: 29 days before the last' },
    to: { value: 'DAY', help: 'last day, inclusive; default: today' },
    account: { value: 'ACCOUNT', help: 'only this account' },
    key: { value: 'ID', help: 'only this API key' },
    model: { value: 'MODEL', help: 'only this model' },
  },
  printsRows: true,
  examples: [
    'usage --by account,model --from 2026-11-01',
    'usage --by user --account acme',
    'usage --by provider,day',
    'usage --by day --csv > usage.csv',
  ],
  async run({ options, store, list }) {
    const { from, to, account, key, model } = options;
    const groupBy = groupsOf(options['by'] ?? 'day');
    checkDimension(groupBy, { key, model });
    const rows = await createUsageQueries(store, Date.now).query({
      groupBy,
      ...(from !== undefined && { from }),
      ...(to !== undefined && { to }),
      ...(account !== undefined && { account }),
      ...(key !== undefined && { key }),
      ...(model !== undefined && { model }),
    });
    const groups = groupBy.map((group): Column<UsageSummary> => ({
      name: group,
      head: group.toUpperCase(),
      value: (row) => row[memberOf(group)],
      shown: (row) => row[memberOf(group)] ?? '',
    }));
    await list({
      columns: [...groups, ...COLUMNS],
      rows,
      none: 'no usage',
      totals: totalsOf(rows, groups.length),
    });
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

/** End users, providers and tags are counted by account, not by key or model. */
function checkDimension(
  groupBy: readonly UsageGroup[],
  filters: Readonly<Record<'key' | 'model', string | undefined>>,
): void {
  const dimension = groupBy.find((group) => !['day', 'account', 'key', 'model'].includes(group));
  if (dimension === undefined) return;
  const others = groupBy.filter((group) => ![dimension, 'day', 'account'].includes(group));
  const given = Object.entries(filters).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`],
  );
  const [unfit] = [...others, ...given];
  if (unfit !== undefined) {
    throw new UsageError(`--by: ${dimension} goes with day and account alone, not with ${unfit}`);
  }
}

const COLUMNS: readonly Column<UsageSummary>[] = [
  ...COUNTS.map(([name, head]) => ({ name, head, value: (row: UsageSummary) => row[name] })),
  amountColumn('charged'),
  { name: 'cost', value: ({ cost }) => cost, shown: ({ cost }) => shownCost(cost) },
];

/** The last row: the sums of the others. */
function totalsOf(rows: readonly UsageSummary[], groups: number): readonly string[] {
  const counts = COUNTS.map(([name]) => String(rows.reduce((sum, row) => sum + row[name], 0)));
  const [charged = '', cost = ''] = (['charged', 'cost'] as const).map((name) =>
    formatUsd(rows.reduce((sum, row) => sum + parseUsd(row[name], name), 0n)),
  );
  const names = Array.from({ length: groups }, (_none, n) => (n === 0 ? 'TOTAL' : ''));
  return [...names, ...counts, usd(charged), shownCost(cost)];
}

/** A cost of zero is one that no price told: what costs nothing isn't told apart. */
function shownCost(cost: string): string {
  return /^[0.]+$/.test(cost) ? '–' : usd(cost);
}
