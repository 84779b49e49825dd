import { styleText } from 'node:util';

import type { CheckRow } from '../check/check.ts';
import type { ComparedPrice } from '../check/compare-prices.ts';
import { wholeNumber, plural, type PlainCommand, UsageError } from './command.ts';
import { requireConfig } from './find-store.ts';
import { table } from '../terminal/table.ts';

const DEFAULT_TIMEOUT_S = 20;

export const checkCommand: PlainCommand = {
  name: 'check',
  summary: 'Check the store, providers, prices and (one token per) target of a config',
  positionals: '',
  options: {
    config: { value: 'FILE', help: 'the config; default: the one in this folder' },
    'no-completion': { help: 'send no completions, which cost a token or two per target' },
    timeout: { value: 'SECONDS', help: `timeout of each request; default: ${DEFAULT_TIMEOUT_S}` },
    strict: { help: 'exit with 1 on warnings, too' },
    json: { help: 'print JSON, one object per line' },
  },
  examples: ['check', 'check --no-completion --strict --env-file .env'],
  async run({ options, print, progress }) {
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
    if (options['json'] === undefined) for (const line of report(rows)) print(line, {});
    else for (const row of rows) print('', row);
    return failed.length === 0 && isFine;
  },
};

function report(rows: readonly CheckRow[]): string[] {
  const failed = rows.filter(({ ok }) => ok === false);
  const lines = table(
    ['PROVIDER', 'MODEL', 'LISTED', 'FIRST BYTE', 'USAGE', 'BILLED', 'PRICE', ''],
    rows.map(({ provider, model, models, sampleOf, listed, firstByteMs, usage, billed, prices, ok }) => [
      provider,
      model === undefined
        ? models === undefined
          ? ''
          : plural(models, 'model')
        : `${model}${sampleOf ? ` (for ${sampleOf.join(', ')})` : ''}`,
      listed === undefined ? '' : listed ? 'yes' : 'no',
      firstByteMs === undefined ? '' : `${firstByteMs} ms`,
      usage ?? '',
      billed ? `$${billed.input} / $${billed.output}` : prices ? 'unknown' : '',
      worst(prices ?? []),
      ok === undefined ? 'skipped' : ok ? 'ok' : 'FAILED',
    ]),
  );
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
    ...lines,
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
