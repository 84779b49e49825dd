import { styleText } from 'node:util';

import type { CheckRow } from '../check/check.ts';
import type { ComparedPrice } from '../check/compare-prices.ts';
import { wholeNumber, plural, type PlainCommand, UsageError } from './command.ts';
import { requireConfig } from './find-store.ts';
import type { Column } from '../terminal/listing.ts';

const DEFAULT_TIMEOUT_S = 20;

export const checkCommand: PlainCommand = {
  name: 'check',
  summary: 'Check the store, providers, prices and targets (by a short completion each) of a config',
  positionals: '',
  options: {
    config: { value: 'FILE', help: 'the config; default: the one in this folder' },
    'no-completion': { help: 'send no completions, which cost a few tokens per target' },
    timeout: { value: 'SECONDS', help: `timeout of each request; default: ${DEFAULT_TIMEOUT_S}` },
    strict: { help: 'exit with 1 on warnings, too' },
  },
  printsRows: true,
  examples: ['check', 'check --no-completion --strict --env-file .env'],
  async run({ options, list, print, progress }) {
    const path = requireConfig(options['config']);
    const seconds = wholeNumber(options['timeout'] ?? String(DEFAULT_TIMEOUT_S), '--timeout');
    if (seconds < 1 || seconds > 3600) throw new UsageError('--timeout must be from 1 to 3600 seconds');
    const { check } = await import('../check/check.ts');
    const rows = await check({
      path,
      completions: options['no-completion'] === undefined,
      timeoutMs: seconds * 1000,
      onProgress: (finished, all) => {
        progress(`${finished} of ${all} requests …`);
      },
    });
    const failed = rows.filter(({ ok }) => ok === false);
    const isFine = options['strict'] === undefined || warningsOf(rows).length === 0;
    await list({ columns: COLUMNS, rows });
    if (options['json'] === undefined && options['csv'] === undefined) {
      for (const line of notes(rows)) print(line, {});
    }
    return failed.length === 0 && isFine;
  },
};

const COLUMNS: readonly Column<CheckRow>[] = [
  { name: 'provider', value: ({ provider }) => provider },
  { name: 'model', value: ({ model }) => model, shown: shownModel },
  {
    name: 'listed',
    value: ({ listed }) => listed,
    shown: ({ listed }) => (listed === undefined ? '' : listed ? 'yes' : 'no'),
  },
  {
    name: 'firstByteMs',
    head: 'FIRST BYTE',
    value: ({ firstByteMs }) => firstByteMs,
    shown: ({ firstByteMs }) => (firstByteMs === undefined ? '' : `${firstByteMs} ms`),
  },
  { name: 'usage', value: ({ usage }) => usage, shown: ({ usage = '' }) => usage },
  { name: 'billedInput', value: ({ billed }) => billed?.input, isOnlyCsv: true },
  { name: 'billedOutput', value: ({ billed }) => billed?.output, isOnlyCsv: true },
  {
    name: 'billed',
    value: ({ billed }) => billed?.source,
    shown: ({ billed, prices }) =>
      billed ? `$${billed.input} / $${billed.output}` : prices ? 'unknown' : '',
  },
  { name: 'price', value: ({ prices }) => worst(prices ?? []), shown: ({ prices }) => worst(prices ?? []) },
  {
    name: 'ok',
    head: '',
    value: ({ ok }) => ok,
    shown: ({ ok }) => (ok === undefined ? 'skipped' : ok ? 'ok' : 'FAILED'),
  },
  { name: 'problem', value: ({ problem }) => problem, isOnlyCsv: true },
];

function shownModel({ model, models, sampleOf }: CheckRow): string {
  if (model === undefined) return models === undefined ? '' : plural(models, 'model');
  return `${model}${sampleOf ? ` (for ${sampleOf.join(', ')})` : ''}`;
}

/** What is below the table. */
function notes(rows: readonly CheckRow[]): readonly string[] {
  const failed = rows.filter(({ ok }) => ok === false);
  const problems = failed.map(({ provider, model, problem }) => {
    const what = model === undefined ? provider : `${provider} ${model}`;
    return `${styleText('red', what)}: ${problem}`;
  });
  const found = warningsOf(rows);
  const warnings = found.map((warning) => `${styleText('yellow', 'warning')}: ${warning}`);
  const outcomes = [
    ...(failed.length > 0 ? [plural(failed.length, 'problem')] : []),
    ...(found.length > 0 ? [plural(found.length, 'warning')] : []),
  ];
  return [
    ...unpricedNotes(rows),
    ...bodyRules(rows),
    '',
    ...problems,
    ...warnings,
    outcomes.join(', ') || 'no problems found',
  ];
}

/** Names of unpriced features that are shown for a provider. */
const MAX_NAMES = 8;

/** Features that a provider sells and the config has no price for, once per provider with its models. */
function unpricedNotes(rows: readonly CheckRow[]): readonly string[] {
  const models = new Map<string, string[]>();
  for (const { provider, model, unpriced } of rows) {
    if (!unpriced || model === undefined) continue;
    const more = unpriced.length - MAX_NAMES;
    const names = unpriced.slice(0, MAX_NAMES).join(', ') + (more > 0 ? ` and ${more} more` : '');
    const what = `${provider} has no price in the config for ${names}`;
    models.set(what, [...(models.get(what) ?? []), model]);
  }
  const notes = [...models].map(
    ([what, names]) => `${what} (${names.join(', ')}). Such requests are rejected.`,
  );
  return notes.length > 0 ? ['', ...notes] : [];
}

function bodyRules(rows: readonly CheckRow[]): readonly string[] {
  const rules = [...new Set(rows.flatMap(({ body }) => body ?? []))];
  return rules.length > 0 ? ['', 'BODY RULES', ...rules] : [];
}

function warningsOf(rows: readonly CheckRow[]): readonly string[] {
  return unique(rows.flatMap(({ warnings }) => warnings ?? []));
}

/** Drops duplicates: several keys of a provider have the same prices. */
function unique(lines: readonly string[]): readonly string[] {
  return [...new Set(lines)];
}

const VERDICTS = ['loss', 'cost differs', 'free', 'ok'] as const;

/** The worst verdict on the models that a target serves. */
function worst(prices: readonly ComparedPrice[]): string {
  const found = VERDICTS.find((each) => prices.some(({ verdict }) => verdict === each)) ?? '';
  return found === 'loss' ? 'LOSS' : found;
}
