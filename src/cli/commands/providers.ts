import type { AdminClient, AttemptStats, ProviderStatus } from '../../client/admin-api.generated.ts';
import { createAdminClient } from '../../client/admin-client.ts';
import { csvLine } from '../../ledger/operations/csv.ts';
import { table } from '../terminal/table.ts';
import {
  type CommandOption,
  type Invocation,
  type PlainCommand,
  UsageError,
  wholeNumber,
} from './command.ts';

const DEFAULT_URL = 'http://127.0.0.1:8787/admin';

const GATEWAY_OPTIONS: Readonly<Record<string, CommandOption>> = {
  url: {
    value: 'URL',
    help: `the admin API of a running gateway; default: ${DEFAULT_URL}. Its token is ADMIN_TOKEN in the environment`,
  },
  json: { help: 'print JSON, one object per line' },
};

export const providersCommand: PlainCommand = {
  name: 'providers',
  summary: 'Show the providers of a running gateway: state, errors, speed',
  positionals: '',
  options: {
    errors: { help: 'show the last errors of each provider instead, newest first' },
    keys: { help: 'show the API keys of each provider instead, with their rate limits' },
    csv: { help: 'print CSV, for spreadsheets' },
    ...GATEWAY_OPTIONS,
  },
  examples: ['providers', 'providers --errors', 'providers --url https://api.example.com/admin --json'],
  async run(invocation) {
    const { options, print } = invocation;
    const { json, csv, errors, keys } = options;
    if (json !== undefined && csv !== undefined) throw new UsageError('--json and --csv exclude each other');
    if (errors !== undefined && keys !== undefined)
      throw new UsageError('--errors and --keys exclude each other');
    const { data } = await gatewayOf(invocation).listProviders();
    if (json !== undefined) for (const provider of data) print('', provider);
    else {
      const sheet =
        errors !== undefined ? errorSheet(data) : keys !== undefined ? keySheet(data) : stateSheet(data);
      for (const line of csv === undefined ? asTable(sheet) : asCsv(sheet)) print(line, {});
    }
    return true;
  },
};

export const ejectProviderCommand: PlainCommand = {
  name: 'providers eject',
  summary: 'Send nothing more to a provider, or to one of its models',
  positionals: 'PROVIDER[/MODEL]',
  options: {
    reason: { value: 'TEXT', help: 'why, for operators' },
    for: { value: 'SECONDS', help: 'for how long; default: until it is readmitted' },
    ...GATEWAY_OPTIONS,
  },
  examples: ['providers eject groq', 'providers eject openai/gpt-5 --for 600 --reason "wrong answers"'],
  async run(invocation) {
    const { reason, for: seconds } = invocation.options;
    const place = placeOf(invocation);
    const after = await gatewayOf(invocation).ejectProvider({
      ...place,
      ...(reason !== undefined && { reason }),
      ...(seconds !== undefined && { for_ms: wholeNumber(seconds, '--for') * 1000 }),
    });
    printState(invocation, place, after);
    return true;
  },
};

export const readmitProviderCommand: PlainCommand = {
  name: 'providers readmit',
  summary: 'End the ejection of a provider with all its models, or of one of them',
  positionals: 'PROVIDER[/MODEL]',
  options: GATEWAY_OPTIONS,
  examples: ['providers readmit groq', 'providers readmit openai/gpt-5'],
  async run(invocation) {
    const place = placeOf(invocation);
    printState(invocation, place, await gatewayOf(invocation).readmitProvider(place));
    return true;
  },
};

/** @throws {UsageError} for an invalid URL, or without a token */
function gatewayOf({ options: { url = DEFAULT_URL } }: Invocation): AdminClient {
  const token = process.env['ADMIN_TOKEN'];
  if (token === undefined || token === '') {
    throw new UsageError('the admin API requires a token: set ADMIN_TOKEN, or use --env-file FILE');
  }
  try {
    return createAdminClient({ baseURL: url, token });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new UsageError(error.message.replace(/^baseURL/, '--url').replace(/^token/, 'ADMIN_TOKEN'));
  }
}

/** A provider's name has no slash, a model's may have. */
function placeOf({ positionals: [place = ''] }: Invocation): {
  readonly name: string;
  readonly target?: string;
} {
  const [name = ''] = place.split('/', 1);
  return place === name ? { name } : { name, target: place.slice(name.length + 1) };
}

function printState(
  { print }: Invocation,
  { name, target }: { readonly name: string; readonly target?: string },
  after: ProviderStatus,
): void {
  const found = target === undefined ? after : after.targets.find(({ model }) => model === target);
  const { state = 'unused', ejection } = found ?? {};
  const until = ejection?.until === undefined ? '' : ` until ${ejection.until}`;
  print(`${target === undefined ? name : `${name}/${target}`}: ${state}${until}`, after);
}

/** Rows for a table, or for CSV. */
interface Sheet {
  readonly heads: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Printed if there are no rows. */
  readonly none: string;
}

const asTable = ({ heads, rows, none }: Sheet): string[] =>
  rows.length === 0
    ? [none]
    : table(
        heads.map((head) => head.toUpperCase().replaceAll('_', ' ')),
        rows.map((row) => row.map((cell) => cell || '–')),
      );

const asCsv = ({ heads, rows }: Sheet): string[] => [heads, ...rows].map(csvLine);

const STATE_HEADS = [
  'provider',
  'model',
  'state',
  'since',
  'retry_at',
  'running',
  'requests',
  'errors',
  'first_byte_p50_ms',
  'first_byte_p95_ms',
  'tokens_per_second',
];

/** A row of each provider, and one of each of its targets. */
function stateSheet(providers: readonly ProviderStatus[]): Sheet {
  const row = (
    name: string,
    model: string,
    {
      state,
      since,
      retry_at: retryAt,
      running,
      recent,
    }: Pick<ProviderStatus, 'state' | 'since' | 'retry_at' | 'running' | 'recent'>,
  ): string[] => [name, model, state, since ?? '', retryAt ?? '', String(running), ...statsCells(recent)];
  const rows = providers.flatMap((provider) => [
    row(provider.name, '', provider),
    ...provider.targets.map((target) => row(provider.name, target.model, target)),
  ]);
  return { heads: STATE_HEADS, rows, none: 'no providers' };
}

function statsCells(stats: AttemptStats): string[] {
  const {
    requests,
    errors,
    first_byte_p50_ms: p50,
    first_byte_p95_ms: p95,
    tokens_per_second: tokens,
  } = stats;
  return [requests, errors, p50, p95, tokens].map((number) => (number === undefined ? '' : String(number)));
}

function errorSheet(providers: readonly ProviderStatus[]): Sheet {
  const heads = ['at', 'provider', 'model', 'status', 'code', 'provider_code', 'message', 'request_id'];
  const rows = providers.flatMap(({ name, errors }) =>
    errors.map(({ at, model, status = '', code, provider_code: own = '', message, request_id: id }) => [
      at,
      name,
      model,
      String(status),
      code,
      own,
      message,
      id,
    ]),
  );
  return { heads, rows, none: 'no errors' };
}

/** A row of each limit of a key, or one of a key without any. */
function keySheet(providers: readonly ProviderStatus[]): Sheet {
  const heads = [
    'provider',
    'key',
    'masked',
    'state',
    'until',
    'model',
    'name',
    'remaining',
    'limit',
    'reset_at',
  ];
  const rows = providers.flatMap(({ name: provider, keys }) =>
    keys.flatMap(({ name: key, masked = '', state, until = '', limits }) => {
      const start = [provider, key, masked, state, until];
      if (limits.length === 0) return [[...start, '', '', '', '', '']];
      return limits.map(({ model, name, remaining, limit = '', reset_at: resetAt = '' }) => [
        ...start,
        model,
        name,
        String(remaining),
        String(limit),
        resetAt,
      ]);
    }),
  );
  return { heads, rows, none: 'no keys' };
}
