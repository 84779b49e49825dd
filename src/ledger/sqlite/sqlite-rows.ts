import type { Books, KeyRow, LotRow, RequestRow } from '../books/account-rows.ts';
import type { Ending, JournalLine, SettledUsage, UsageRow } from '../ledger.ts';
import type { KeyLimits } from '../keys.ts';
import { ENDINGS } from '../usage.ts';
import { integer, number, oneOf, text, unless } from './sqlite-columns.ts';
import type { Row, SqlValue } from './sqlite-schema.ts';

/**
 * Each kind of row as columns: their names, the values to save, and the row again.
 * Names and values come in the same order.
 */

export const BOOKS: readonly string[] = [
  'granted',
  'available',
  'held',
  'spent',
  'expired',
  'written_off',
  'floor',
  'frozen',
  'seq',
  'low_water',
  'free_low_water',
  'next_expiry',
];

export function booksValues(books: Books): SqlValue[] {
  return [
    books.granted,
    books.available,
    books.held,
    books.spent,
    books.expired,
    books.writtenOff,
    books.floor,
    books.frozen ? 1n : 0n,
    books.seq,
    books.lowWater,
    books.freeLowWater,
    books.nextExpiry === Infinity ? null : books.nextExpiry,
  ];
}

export function booksOf(row: Row): Books {
  return {
    granted: integer(row, 'granted'),
    available: integer(row, 'available'),
    held: integer(row, 'held'),
    spent: integer(row, 'spent'),
    expired: integer(row, 'expired'),
    writtenOff: integer(row, 'written_off'),
    floor: integer(row, 'floor'),
    frozen: integer(row, 'frozen') !== 0n,
    seq: integer(row, 'seq'),
    lowWater: number(row, 'low_water'),
    freeLowWater: number(row, 'free_low_water'),
    nextExpiry: unless(row, 'next_expiry', number) ?? Infinity,
  };
}

export const REQUEST: readonly string[] = [
  'id',
  'state',
  'amount',
  'checkpoint',
  'due',
  'api_key',
  'budget_window',
  'tokens',
  'idempotency_key',
  'body_hash',
  'model',
  'line',
  'ending',
  'provider',
];

export function requestValues(row: RequestRow): SqlValue[] {
  return [
    row.id,
    row.state,
    row.amount,
    row.checkpoint,
    row.due,
    row.key,
    row.window,
    row.tokens,
    row.idempotencyKey?.key ?? null,
    row.idempotencyKey?.body ?? null,
    row.model,
    row.line ?? null,
    row.ending ?? null,
    row.provider ?? null,
  ];
}

export function requestOf(row: Row): RequestRow {
  return {
    id: text(row, 'id'),
    state: oneOf(row, 'state', ['held', 'settled', 'voided', 'expired']),
    amount: integer(row, 'amount'),
    checkpoint: integer(row, 'checkpoint'),
    due: number(row, 'due'),
    key: text(row, 'api_key'),
    window: number(row, 'budget_window'),
    tokens: number(row, 'tokens'),
    idempotencyKey: unless(row, 'idempotency_key', (_, key) => {
      return { key: text(row, key), body: text(row, 'body_hash') };
    }),
    model: text(row, 'model'),
    line: unless(row, 'line', integer),
    ending: unless(row, 'ending', endingOf),
    provider: unless(row, 'provider', text),
  };
}

/** What requests change of a key. */
export const KEY_STATE: readonly string[] = [
  'held',
  'running',
  'spent',
  'budget_window',
  'request_level',
  'request_level_at',
  'token_level',
  'token_level_at',
];

export function keyStateValues(row: KeyRow): SqlValue[] {
  return [
    row.held,
    row.running,
    row.spent,
    row.window,
    row.requestBucket.level,
    row.requestBucket.at,
    row.tokenBucket.level,
    row.tokenBucket.at,
  ];
}

/** What operators change of a key. */
export const KEY_TERMS: readonly string[] = [
  'hash',
  'previous_hash',
  'previous_until',
  'name',
  'budget_amount',
  'budget_per',
  'requests_per_minute',
  'tokens_per_minute',
  'concurrent_requests',
  'expires_at',
  'policy',
  'revoked_at',
  'version',
];

export function keyTermsValues(row: KeyRow): SqlValue[] {
  const { budget, requestsPerMinute, tokensPerMinute, concurrentRequests } = row.limits;
  return [
    row.hash ?? null,
    row.previous?.hash ?? null,
    row.previous?.until ?? null,
    row.name,
    budget?.amount ?? null,
    budget?.per ?? null,
    requestsPerMinute ?? null,
    tokensPerMinute ?? null,
    concurrentRequests ?? null,
    row.expiresAt ?? null,
    row.policy ?? null,
    row.revokedAt ?? null,
    row.version,
  ];
}

export const KEY: readonly string[] = ['id', 'created_at', ...KEY_TERMS, ...KEY_STATE];

export function keyValues(row: KeyRow): SqlValue[] {
  return [row.key, row.createdAt, ...keyTermsValues(row), ...keyStateValues(row)];
}

export function keyOf(row: Row): KeyRow {
  return {
    key: text(row, 'id'),
    createdAt: number(row, 'created_at'),
    hash: unless(row, 'hash', text),
    previous: unless(row, 'previous_hash', (_, hash) => {
      return { hash: text(row, hash), until: number(row, 'previous_until') };
    }),
    name: text(row, 'name'),
    limits: limitsOf(row),
    expiresAt: unless(row, 'expires_at', number),
    policy: unless(row, 'policy', text),
    revokedAt: unless(row, 'revoked_at', number),
    version: number(row, 'version'),
    held: integer(row, 'held'),
    running: number(row, 'running'),
    spent: integer(row, 'spent'),
    window: number(row, 'budget_window'),
    requestBucket: { level: number(row, 'request_level'), at: number(row, 'request_level_at') },
    tokenBucket: { level: number(row, 'token_level'), at: number(row, 'token_level_at') },
  };
}

function limitsOf(row: Row): KeyLimits {
  const amount = unless(row, 'budget_amount', integer);
  const requestsPerMinute = unless(row, 'requests_per_minute', number);
  const tokensPerMinute = unless(row, 'tokens_per_minute', number);
  const concurrentRequests = unless(row, 'concurrent_requests', number);
  return {
    ...(amount !== undefined && {
      budget: { amount, per: oneOf(row, 'budget_per', ['day', 'week', 'month', 'lifetime']) },
    }),
    ...(requestsPerMinute !== undefined && { requestsPerMinute }),
    ...(tokensPerMinute !== undefined && { tokensPerMinute }),
    ...(concurrentRequests !== undefined && { concurrentRequests }),
  };
}

export const LOT: readonly string[] = ['id', 'amount', 'remaining', 'expires_at', 'priority'];

export function lotValues(row: LotRow): SqlValue[] {
  return [row.id, row.amount, row.remaining, row.expiresAt ?? null, row.priority];
}

export function lotOf(row: Row): LotRow {
  return {
    id: text(row, 'id'),
    amount: integer(row, 'amount'),
    remaining: integer(row, 'remaining'),
    expiresAt: unless(row, 'expires_at', number),
    priority: number(row, 'priority'),
  };
}

export const LINE: readonly string[] = [
  'seq',
  'type',
  'at',
  'id',
  'amount',
  'available',
  'hold',
  'written_off',
  'api_key',
  'model',
  'reason',
  'prompt_tokens',
  'cached_tokens',
  'completion_tokens',
  'reasoning_tokens',
  'source',
  'cost',
  'price',
  'ending',
  'provider',
  'upstream_model',
  'first_byte_ms',
  'duration_ms',
  'finish_reason',
  'streamed',
  'cache_write_tokens',
  'web_searches',
  'own_key',
];

export function lineValues(line: JournalLine): SqlValue[] {
  const { usage } = line;
  return [
    line.seq,
    line.type,
    line.at,
    line.id,
    line.amount,
    line.available,
    line.hold ?? null,
    line.writtenOff ?? null,
    line.key ?? null,
    line.model ?? null,
    line.reason ?? null,
    usage?.promptTokens ?? null,
    usage?.cachedTokens ?? null,
    usage?.completionTokens ?? null,
    usage?.reasoningTokens ?? null,
    usage?.source ?? null,
    usage?.cost ?? null,
    usage?.price ?? null,
    usage?.ending ?? null,
    usage?.provider ?? null,
    usage?.upstreamModel ?? null,
    usage?.firstByteMs ?? null,
    usage?.durationMs ?? null,
    usage?.finishReason ?? null,
    usage?.streamed === undefined ? null : Number(usage.streamed),
    usage?.cacheWriteTokens ?? null,
    usage?.webSearches ?? null,
    usage?.ownKey === undefined ? null : Number(usage.ownKey),
  ];
}

export function lineOf(row: Row): JournalLine {
  const hold = unless(row, 'hold', integer);
  const writtenOff = unless(row, 'written_off', integer);
  const key = unless(row, 'api_key', text);
  const model = unless(row, 'model', text);
  const usage = unless(row, 'source', usageOf);
  const reason = unless(row, 'reason', text);
  return {
    type: oneOf(row, 'type', ['g', 's', 'l', 'o', 'e', 'x', 'a']),
    seq: integer(row, 'seq'),
    at: number(row, 'at'),
    id: text(row, 'id'),
    amount: integer(row, 'amount'),
    available: integer(row, 'available'),
    ...(hold !== undefined && { hold }),
    ...(writtenOff !== undefined && { writtenOff }),
    ...(key !== undefined && { key }),
    ...(model !== undefined && { model }),
    ...(usage && { usage }),
    ...(reason !== undefined && { reason }),
  };
}

function usageOf(row: Row): SettledUsage {
  const cost = unless(row, 'cost', integer);
  const provider = unless(row, 'provider', text);
  const upstreamModel = unless(row, 'upstream_model', text);
  const firstByteMs = unless(row, 'first_byte_ms', number);
  const durationMs = unless(row, 'duration_ms', number);
  const finishReason = unless(row, 'finish_reason', text);
  const streamed = unless(row, 'streamed', number);
  const cacheWriteTokens = unless(row, 'cache_write_tokens', number);
  const webSearches = unless(row, 'web_searches', number);
  const ownKey = unless(row, 'own_key', number);
  return {
    promptTokens: number(row, 'prompt_tokens'),
    cachedTokens: number(row, 'cached_tokens'),
    completionTokens: number(row, 'completion_tokens'),
    reasoningTokens: number(row, 'reasoning_tokens'),
    source: oneOf(row, 'source', ['upstream', 'estimated', 'none']),
    ...(cost !== undefined && { cost }),
    price: text(row, 'price'),
    ending: endingOf(row, 'ending'),
    ...(provider !== undefined && { provider }),
    ...(upstreamModel !== undefined && { upstreamModel }),
    ...(firstByteMs !== undefined && { firstByteMs }),
    ...(durationMs !== undefined && { durationMs }),
    ...(finishReason !== undefined && { finishReason }),
    ...(streamed !== undefined && { streamed: streamed !== 0 }),
    ...(cacheWriteTokens !== undefined && { cacheWriteTokens }),
    ...(webSearches !== undefined && { webSearches }),
    ...(ownKey !== undefined && { ownKey: ownKey !== 0 }),
  };
}

function endingOf(row: Row, column: string): Ending {
  return oneOf(row, column, ENDINGS);
}

/** What names a row of usage, and what is counted in it. */
export const USAGE_KEY: readonly string[] = ['day', 'api_key', 'model'];
export const USAGE_COUNTS: readonly string[] = [
  'requests',
  'errors',
  'aborted',
  'prompt_tokens',
  'cached_tokens',
  'completion_tokens',
  'reasoning_tokens',
  'charged',
  'cost',
];

export function usageValues(row: UsageRow): SqlValue[] {
  return [
    row.day,
    row.key,
    row.model,
    row.requests,
    row.errors,
    row.aborted,
    row.promptTokens,
    row.cachedTokens,
    row.completionTokens,
    row.reasoningTokens,
    row.charged,
    row.cost,
  ];
}

export function usageRowOf(row: Row): UsageRow {
  return {
    day: text(row, 'day'),
    key: text(row, 'api_key'),
    model: text(row, 'model'),
    requests: number(row, 'requests'),
    errors: number(row, 'errors'),
    aborted: number(row, 'aborted'),
    promptTokens: number(row, 'prompt_tokens'),
    cachedTokens: number(row, 'cached_tokens'),
    completionTokens: number(row, 'completion_tokens'),
    reasoningTokens: number(row, 'reasoning_tokens'),
    charged: integer(row, 'charged'),
    cost: integer(row, 'cost'),
  };
}
