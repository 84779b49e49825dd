import type { CallLimit } from '../async/call-limit.ts';
import type { Caller } from '../keys/caller.ts';
import { InvalidRequestError } from '../errors/request-errors.ts';
import type { Exchange } from '../http/exchange.ts';
import { queryOf } from '../http/url.ts';
import type { LedgerStore } from '../ledger/contract/ledger-store.ts';
import { DAY_MS, dayOf, isDay } from '../ledger/contract/usage.ts';
import type { UsageQueries, UsageSummary } from '../ledger/operations/usage-queries.ts';
import { fromStore } from '../keys/from-store.ts';
import { onlyKeyOf, sendRecord } from './account-record.ts';

export interface UsageServices {
  readonly store: LedgerStore;
  readonly clock: { now(): number };
  readonly usage: Pick<UsageQueries, 'query' | 'dimensions'>;
  readonly accountReads: CallLimit;
}

const GROUPS = ['day', 'key', 'model', 'user'] as const;
type Group = (typeof GROUPS)[number];

const DEFAULT_DAYS = 30;
const MAX_DAYS = 366;

/**
 * `GET /usage`, also as `/activity` (OpenRouter) and `/report` (Vercel): what the caller's account has used, by day and
 * model. A key with limits of its own, a session, and a key of the host's get their own usage alone.
 */
export async function sendUsage(exchange: Exchange, caller: Caller, services: UsageServices): Promise<void> {
  const { store, clock, usage, accountReads } = services;
  const query = parseQuery(queryOf(exchange.url), clock.now(), usage.dimensions ?? []);
  const onlyKey = await fromStore(() => onlyKeyOf(caller, store));
  if (onlyKey !== undefined && query.groupBy.includes('user')) {
    throw invalid('group_by', 'day, key or model for this key, which sees its own usage alone', 'user');
  }
  const rows = await fromStore(() =>
    accountReads.run(caller.account, () =>
      usage.query({
        ...query,
        account: caller.account,
        ...(onlyKey !== undefined && { key: onlyKey }),
      }),
    ),
  );
  sendRecord(exchange, {
    object: 'list',
    data: rows.map(usageBody),
    results: rows.map(reportBody),
  });
}

interface UsageRange {
  readonly from: string;
  readonly to: string;
  readonly groupBy: readonly Group[];
}

/** @throws {InvalidRequestError} naming the invalid parameter */
function parseQuery(given: URLSearchParams, now: number, dimensions: readonly string[]): UsageRange {
  const single = dayIn(given, 'date');
  const to = dayIn(given, 'end_date') ?? dayIn(given, 'to') ?? single ?? dayOf(now);
  const from =
    dayIn(given, 'start_date') ??
    dayIn(given, 'from') ??
    single ??
    dayOf(Date.parse(to) - (DEFAULT_DAYS - 1) * DAY_MS);
  const days = (Date.parse(to) - Date.parse(from)) / DAY_MS + 1;
  if (days < 1 || days > MAX_DAYS) {
    throw invalid('start_date', `a day from 0 to ${MAX_DAYS - 1} days before ${to}`, from);
  }
  const names = (given.get('group_by') ?? 'day,model').split(',');
  const known = GROUPS.filter((group) => group !== 'user' || dimensions.includes('user'));
  const unknown = names.find((name) => !known.some((group) => group === name));
  if (unknown !== undefined || new Set(names).size < names.length) {
    throw invalid('group_by', `a list of ${known.join(', ')}, each once`, names.join(','));
  }
  const groupBy = known.filter((group) => names.includes(group));
  if (groupBy.includes('user') && groupBy.some((group) => group === 'key' || group === 'model')) {
    throw invalid('group_by', 'user with day alone', names.join(','));
  }
  return { from, to, groupBy };
}

function dayIn(given: URLSearchParams, name: string): string | undefined {
  const value = given.get(name);
  if (value === null) return undefined;
  if (isDay(value)) return value;
  throw invalid(name, 'a day such as 2026-11-21', value);
}

function invalid(param: string, wanted: string, got: string): InvalidRequestError {
  const shown = JSON.stringify(got.slice(0, 100));
  return new InvalidRequestError('invalid_value', `${param} must be ${wanted}, got ${shown}.`, param);
}

/** The router's names, with those of OpenRouter's activity; never what providers bill. */
function usageBody({ charged, ...row }: UsageSummary): object {
  const { day, key, model, user } = row;
  return {
    ...(day !== undefined && { day, date: day }),
    ...(key !== undefined && { key }),
    ...(model !== undefined && { model, model_permaslug: model }),
    ...(user !== undefined && { user }),
    requests: row.requests,
    errors: row.errors,
    aborted: row.aborted,
    prompt_tokens: row.promptTokens,
    cached_tokens: row.cachedTokens,
    completion_tokens: row.completionTokens,
    reasoning_tokens: row.reasoningTokens,
    charged,
    usage: Number(charged),
    byok_usage_inference: 0,
    endpoint_id: '',
    provider_name: '',
  };
}

/** As a row of Vercel's report. */
function reportBody({ day, key, model, user, charged, ...row }: UsageSummary): object {
  return {
    ...(day !== undefined && { day }),
    ...(key !== undefined && { key }),
    ...(model !== undefined && { model }),
    ...(user !== undefined && { user }),
    total_cost: Number(charged),
    market_cost: Number(charged),
    input_tokens: row.promptTokens,
    output_tokens: row.completionTokens,
    cached_input_tokens: row.cachedTokens,
    cache_creation_input_tokens: 0,
    reasoning_tokens: row.reasoningTokens,
    request_count: row.requests,
  };
}
