import type { LedgerStore } from '../../ledger/contract/ledger-store.ts';
import type { RequestLogStore } from '../../ledger/contract/request-log.ts';
import { csvLine } from '../../ledger/operations/csv.ts';
import type { LoggedAttempt, LoggedRequest } from '../../request-log/logged-request.ts';
import { findLogged, type RequestSearch, searchLog, STATUS_CLASSES } from '../../request-log/search.ts';
import { date, NotFoundError, type StoreCommand, usd, UsageError, wholeNumber } from './command.ts';
import { escapeControlCharacters } from '../terminal/escape-control-characters.ts';
import { table } from '../terminal/table.ts';

const HEADS = [
  'TIME',
  'REQUEST',
  'ACCOUNT',
  'MODEL',
  'PROVIDER',
  'STATUS',
  'CODE',
  'FIRST BYTE',
  'TOTAL',
  'CHARGED',
];

export const listRequestsCommand: StoreCommand = {
  name: 'requests list',
  summary: 'Search the log of requests, the newest first',
  store: 'exists',
  positionals: '',
  options: {
    account: { value: 'ACCOUNT', help: 'only this account' },
    key: { value: 'ID', help: 'only this API key' },
    model: { value: 'MODEL', help: 'only this model' },
    provider: { value: 'PROVIDER', help: 'only requests that were sent to it' },
    status: { value: 'STATUS', help: 'e.g. 429, or 2xx, 4xx, 5xx' },
    code: { value: 'CODE', help: 'only this error code' },
    from: { value: 'DATE', help: 'requests that arrived then or later, e.g. 2026-11-01T12:00Z' },
    to: { value: 'DATE', help: 'requests that arrived before' },
    limit: { value: 'NUMBER', help: 'the most to print, at most 500; default: 50' },
    cursor: { value: 'CURSOR', help: 'where to go on: the last line of an earlier search names it' },
    csv: { help: 'print CSV, for spreadsheets' },
  },
  examples: ['requests list --account acme --status 5xx', 'requests list --code rate_limit_exceeded --csv'],
  async run({ options, store, print, note }) {
    const { json, csv, cursor, status } = options;
    if (json !== undefined && csv !== undefined) throw new UsageError('--json and --csv exclude each other');
    const search: RequestSearch = {
      ...textsOf(options),
      ...(status !== undefined && { status: statusOf(status) }),
      ...(options['from'] !== undefined && { from: date(options['from'], '--from') }),
      ...(options['to'] !== undefined && { to: date(options['to'], '--to') }),
      ...(options['limit'] !== undefined && { limit: wholeNumber(options['limit'], '--limit') }),
      ...(cursor !== undefined && { cursor }),
    };
    const { requests, cursor: next } = await searchLog(logOf(store), search);
    if (json !== undefined) for (const request of requests) print('', request);
    else for (const line of csv === undefined ? asTable(requests) : asCsv(requests)) print(line, {});
    if (next !== undefined) note(`there may be more: --cursor ${next}`);
    return true;
  },
};

export const showRequestCommand: StoreCommand = {
  name: 'requests show',
  summary: 'Show a request by its ID, the x-request-id of its response',
  store: 'exists',
  positionals: 'REQUEST',
  options: {},
  examples: ['requests show mi1pk2k3f0aq100000b'],
  async run({ positionals: [id = ''], store, print }) {
    const request = await findLogged(logOf(store), id);
    if (!request) {
      throw new NotFoundError(`request ${id} is not in the log: it is running, too old, or no request's ID`, {
        request: id,
        error: 'no_request',
      });
    }
    print(story(request).join('\n'), request);
    return true;
  },
};

/** @throws {UsageError} for a store that keeps no log */
function logOf({ requestLog }: LedgerStore): RequestLogStore {
  if (!requestLog) throw new UsageError('this store keeps no log of requests');
  return requestLog;
}

function textsOf(options: Readonly<Record<string, string | undefined>>): RequestSearch {
  const names = ['account', 'key', 'model', 'provider', 'code'];
  return Object.fromEntries(
    names.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]])),
  );
}

/** @throws {UsageError} if it is neither a status nor a class of them */
function statusOf(text: string): NonNullable<RequestSearch['status']> {
  const wanted = STATUS_CLASSES.find((each) => each === text);
  if (wanted) return wanted;
  if (/^[1-5]\d\d$/.test(text)) return Number(text);
  throw new UsageError(
    `--status must be a status such as 429, or 2xx, 4xx, 5xx, got ${JSON.stringify(text)}`,
  );
}

function asTable(requests: readonly LoggedRequest[]): string[] {
  if (requests.length === 0) return ['no requests'];
  return table(
    HEADS,
    requests.map((request) => [
      request.createdAt.toISOString().slice(0, 19),
      request.id,
      request.account,
      request.model ?? '–',
      request.provider ?? '–',
      String(request.status),
      request.code ?? '',
      request.firstByteMs === undefined ? '–' : ms(request.firstByteMs),
      ms(request.durationMs),
      chargeOf(request),
    ]),
  );
}

/** An amount, or why there is none. */
function chargeOf({ state, charged }: LoggedRequest): string {
  return state === 'settled' ? usd(charged) : state === 'unsettled' ? 'unsettled' : '–';
}

const COLUMNS = [
  'id',
  'createdAt',
  'account',
  'key',
  'model',
  'provider',
  'upstreamModel',
  'status',
  'code',
] as const;
const FURTHER = ['streamed', 'firstByteMs', 'durationMs', 'state', 'charged', 'cost'] as const;

function asCsv(requests: readonly LoggedRequest[]): string[] {
  const cells = requests.map((request) => [
    ...[...COLUMNS, ...FURTHER].map((name) => {
      const value = request[name];
      return value instanceof Date ? value.toISOString() : String(value ?? '');
    }),
    String(request.usage?.promptTokens ?? ''),
    String(request.usage?.completionTokens ?? ''),
  ]);
  return [[...COLUMNS, ...FURTHER, 'promptTokens', 'completionTokens'], ...cells].map(csvLine);
}

/** One request, from its arrival to its end. */
function story(request: LoggedRequest): string[] {
  const { id, createdAt, account, key, model, status, code, attempts, durationMs, firstByteMs, streamed } =
    request;
  const facts: readonly (readonly [string, string | undefined])[] = [
    ['request', id],
    ['arrived', createdAt.toISOString()],
    ['account', `${account}, key ${key}`],
    ['model', model && `${model}${streamed ? ', as a stream' : ''}`],
    ['status', `${status}${code === undefined ? '' : ` ${code}`}`],
    ['ended', [request.ending, request.finishReason].filter(Boolean).join(', ') || undefined],
    ['time', `${firstByteMs === undefined ? '' : `first byte ${ms(firstByteMs)}, `}in all ${ms(durationMs)}`],
    ['tokens', tokensOf(request)],
    ['charge', `${request.state === 'settled' ? usd(request.charged) : request.state}${costOf(request)}`],
    ["client's ID", request.clientRequestId],
    ...Object.entries(request.dimensions ?? {}),
  ];
  const known = facts.filter(([, fact]) => fact !== undefined);
  const width = Math.max(...known.map(([name]) => name.length));
  return [
    ...known.map(([name, fact]) => `${name.padEnd(width)}  ${escapeControlCharacters(fact ?? '')}`),
    ...(attempts.length === 0 ? [] : ['', ...table(ATTEMPT_HEADS, attempts.map(attemptCells))]),
  ];
}

const ATTEMPT_HEADS = [
  'ATTEMPT',
  'AFTER',
  'TOOK',
  'PROVIDER',
  'MODEL',
  'STATUS',
  'CODE',
  "PROVIDER'S CODE",
  "PROVIDER'S ID",
];

function attemptCells(attempt: LoggedAttempt, n: number): string[] {
  const { provider, model, afterMs, durationMs, status, code, upstreamCode, upstreamRequestId } = attempt;
  return [
    String(n + 1),
    ms(afterMs),
    ms(durationMs),
    provider,
    model,
    String(status ?? '–'),
    code ?? '',
    upstreamCode ?? '',
    upstreamRequestId ?? '',
  ];
}

function tokensOf({ usage }: LoggedRequest): string | undefined {
  if (!usage) return undefined;
  const { promptTokens, cachedTokens, completionTokens, reasoningTokens } = usage;
  const cached = cachedTokens > 0 ? ` (${cachedTokens} cached)` : '';
  const reasoning = reasoningTokens > 0 ? ` (${reasoningTokens} reasoning)` : '';
  const estimated = usage.source === 'estimated' ? ', estimated' : '';
  return `${promptTokens} prompt${cached}, ${completionTokens} completion${reasoning}${estimated}`;
}

function costOf({ cost, writtenOff }: LoggedRequest): string {
  return [cost && `, the provider bills ${usd(cost)}`, writtenOff && `, ${usd(writtenOff)} written off`]
    .filter(Boolean)
    .join('');
}

function ms(value: number): string {
  return `${Math.round(value)} ms`;
}
