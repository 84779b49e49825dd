import type { LedgerStore } from '../../ledger/contract/ledger-store.ts';
import type { RequestLogStore } from '../../ledger/contract/request-log.ts';
import type { LoggedAttempt, LoggedRequest } from '../../request-log/logged-request.ts';
import { findLogged, type RequestSearch, searchLog, STATUS_CLASSES } from '../../request-log/search.ts';
import type { Column } from '../terminal/listing.ts';
import {
  date,
  type GatewayCommand,
  NotFoundError,
  type StoreCommand,
  usd,
  UsageError,
  wholeNumber,
} from './command.ts';
import { escapeControlCharacters } from '../terminal/escape-control-characters.ts';
import { table } from '../terminal/table.ts';

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
  },
  printsRows: true,
  examples: ['requests list --account acme --status 5xx', 'requests list --code rate_limit_exceeded --csv'],
  async run({ options, store, list, remark }) {
    const { cursor, status } = options;
    const search: RequestSearch = {
      ...textsOf(options),
      ...(status !== undefined && { status: statusOf(status) }),
      ...(options['from'] !== undefined && { from: date(options['from'], '--from') }),
      ...(options['to'] !== undefined && { to: date(options['to'], '--to') }),
      ...(options['limit'] !== undefined && { limit: wholeNumber(options['limit'], '--limit') }),
      ...(cursor !== undefined && { cursor }),
    };
    const { requests, cursor: next } = await searchLog(logOf(store), search);
    await list({ columns: COLUMNS, rows: requests, none: 'no requests' });
    if (next !== undefined) remark(`there may be more: --cursor ${next}`);
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

export const listRunningRequestsCommand: GatewayCommand = {
  name: 'requests running',
  summary: 'Show the running requests of a gateway, the oldest first',
  asksGateway: true,
  positionals: '',
  options: {},
  printsRows: true,
  examples: ['requests running', 'requests running --url https://api.example.com/admin --csv'],
  async run({ gateway, list }) {
    const { data } = await gateway.listRunningRequests();
    await list({
      columns: [
        { name: 'id', head: 'REQUEST', value: ({ id }) => id },
        'started_at',
        'account',
        'key',
        'model',
        'provider',
        'streaming',
      ],
      rows: data,
      none: 'no requests',
    });
    return true;
  },
};

export const listWaitingRequestsCommand: GatewayCommand = {
  name: 'requests waiting',
  summary: 'Show the requests whose charge waits for the store of a gateway, the oldest first',
  asksGateway: true,
  positionals: '',
  options: {},
  printsRows: true,
  examples: ['requests waiting', 'requests waiting --json'],
  async run({ gateway, list, remark }) {
    const { waiting, waiting_charges: count } = await gateway.getStatus();
    await list({
      columns: [
        { name: 'request_id', head: 'REQUEST', value: ({ request_id: id }) => id },
        'account',
        'waiting_ms',
      ],
      rows: waiting,
      none: 'no requests',
    });
    if (count > waiting.length) remark(`${count} wait; these are the oldest`);
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

/** An amount, or why there is none. */
function chargeOf({ state, charged }: LoggedRequest): string {
  return state === 'settled' ? usd(charged) : state === 'unsettled' ? 'unsettled' : '–';
}

const COLUMNS: readonly Column<LoggedRequest>[] = [
  { name: 'id', head: 'REQUEST', value: ({ id }) => id },
  { name: 'createdAt', head: 'TIME', value: ({ createdAt }) => createdAt },
  { name: 'account', value: ({ account }) => account },
  { name: 'key', value: ({ key }) => key, isOnlyCsv: true },
  { name: 'model', value: ({ model }) => model },
  { name: 'provider', value: ({ provider }) => provider },
  { name: 'upstreamModel', value: ({ upstreamModel }) => upstreamModel, isOnlyCsv: true },
  { name: 'status', value: ({ status }) => status },
  { name: 'code', value: ({ code }) => code },
  { name: 'streamed', value: ({ streamed }) => streamed, isOnlyCsv: true },
  {
    name: 'firstByteMs',
    head: 'FIRST BYTE',
    value: ({ firstByteMs }) => firstByteMs,
    shown: ({ firstByteMs }) => (firstByteMs === undefined ? '–' : ms(firstByteMs)),
  },
  {
    name: 'durationMs',
    head: 'TOTAL',
    value: ({ durationMs }) => durationMs,
    shown: ({ durationMs }) => ms(durationMs),
  },
  { name: 'state', value: ({ state }) => state, isOnlyCsv: true },
  { name: 'charged', value: ({ charged }) => charged, shown: chargeOf },
  { name: 'cost', value: ({ cost }) => cost, isOnlyCsv: true },
  { name: 'promptTokens', value: ({ usage }) => usage?.promptTokens, isOnlyCsv: true },
  { name: 'completionTokens', value: ({ usage }) => usage?.completionTokens, isOnlyCsv: true },
  { name: 'clientRequestId', value: ({ clientRequestId }) => clientRequestId, isOnlyCsv: true },
];

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
