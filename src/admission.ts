import {
  AccountFrozenError,
  AuthenticationError,
  BudgetExceededError,
  CreditStoreUnavailableError,
  IdempotencyKeyReusedError,
  InsufficientCreditsError,
  InternalError,
  RateLimitError,
  RepeatedRequestError,
  type RouterError,
} from './errors.ts';
import type { ChatRequest } from './http/chat-request.ts';
import { windowEnd } from './ledger/books/key-limits.ts';
import type { KeyLimits, KeyRates } from './ledger/keys.ts';
import type { AdmitResult } from './ledger/ledger.ts';
import { formatUsd, type NanoDollars } from './ledger/money.ts';
import { affordableOutputTokens, quoteFor, type Quote, withSearches } from './metering/estimate.ts';
import type { Model } from './models/catalog.ts';
import type { HoldMode } from './options/router-options.ts';

/** What is taken for the longest answer of a free model that says nothing of its limits. */
const FREE_OUTPUT_TOKENS = 131_072;

/** What a request can cost, by its size, its limits and the dearest target of its model. */
export function quoteRequest(request: ChatRequest, model: Model): Quote {
  const { maxTokens, maxCompletionTokens } = request;
  const most = model.maxOutputTokens ?? model.contextWindow ?? FREE_OUTPUT_TOKENS;
  // Servers differ on which of the two counts where both are given: the larger one is held for.
  const asked = Math.max(maxTokens ?? 0, maxCompletionTokens ?? 0) || most;
  return quoteFor({
    size: request.size,
    budgets: model.tokenBudgets,
    contextWindow: model.contextWindow,
    outputCap: Math.min(asked, most),
    modelOutputCap: Math.max(asked, most),
    n: request.n,
    webSearches: model.webSearches,
    webSearchesNeeded: model.webSearchesNeeded,
    prices: model.prices,
  });
}

/** The least that a request is admitted with. */
export function leastHold(quote: Quote, holdMode: HoldMode): NanoDollars {
  if (holdMode === 'strict') return quote.want;
  return holdMode === 'adaptive' ? quote.likelyMin : quote.min;
}

/** The limit of output that a hold covers; undefined where the request can't exceed it anyway. */
export function outputLimit(hold: NanoDollars, quote: Quote, holdMode: HoldMode): number | undefined {
  if (hold >= quote.want) return undefined;
  const limit = outputTokensFor(hold, quote, holdMode);
  return limit < quote.outputCap ? limit : undefined;
}

/** The output limit that money covers beside the longest prompt of this size; with adaptive holds, beside the likely one. */
function outputTokensFor(money: NanoDollars, quote: Quote, holdMode: HoldMode): number {
  const { promptTokens, promptTokensAtMost, webSearches, webSearchesNeeded } = quote;
  if (holdMode === 'adaptive') return affordableOutputTokens(money, promptTokens, withSearches(quote, 0));
  const searches = holdMode === 'strict' ? webSearches : webSearchesNeeded;
  return affordableOutputTokens(money, promptTokensAtMost, withSearches(quote, searches));
}

/** What the client is told when the ledger does not admit its request. */
export function refusal(
  result: AdmitResult,
  quote: Quote,
  holdMode: HoldMode,
  limits: KeyLimits = {},
): RouterError {
  const required = leastHold(quote, holdMode);
  const insufficient = (available: NanoDollars): RouterError =>
    new InsufficientCreditsError(
      formatUsd(required),
      formatUsd(available),
      outputTokensFor(available, quote, holdMode),
    );
  switch (result.code) {
    case 'no_funds':
      return insufficient(result.available);
    case 'no_account':
      return insufficient(0n);
    case 'budget':
      return overBudget(result.left, required, limits, result.now);
    case 'no_key':
      return new AuthenticationError('invalid_api_key');
    case 'revoked':
      return new AuthenticationError('revoked_api_key');
    case 'expired':
      return new AuthenticationError('expired_api_key');
    case 'frozen':
      return new AccountFrozenError();
    case 'repeated': {
      const code = result.state === 'held' ? 'request_in_progress' : 'request_already_processed';
      return new RepeatedRequestError(code, result.requestId);
    }
    case 'key_reused':
      return new IdempotencyKeyReusedError(result.requestId);
    case 'concurrency':
      return new RateLimitError('too_many_concurrent_requests', 1000, limits.concurrentRequests ?? 0);
    case 'requests_per_minute':
      return new RateLimitError(
        'requests_per_minute_exceeded',
        result.retryAfterMs,
        result.rates?.requests?.limit ?? 0,
      );
    case 'tokens_per_minute':
      return new RateLimitError(
        'tokens_per_minute_exceeded',
        result.retryAfterMs,
        result.rates?.tokens?.limit ?? 0,
      );
    case 'stale':
    case 'old':
    case 'ahead':
      return new CreditStoreUnavailableError();
    default:
      return new InternalError(new Error(`A new request was answered ${result.code} by the store`));
  }
}

/** What is left of a key's limits per minute, as OpenAI says it. */
export function rateLimitHeaders({ requests, tokens }: KeyRates): Readonly<Record<string, string>> {
  return {
    ...(requests && {
      'x-ratelimit-limit-requests': String(requests.limit),
      'x-ratelimit-remaining-requests': String(requests.remaining),
      'x-ratelimit-reset-requests': duration(requests.resetMs),
    }),
    ...(tokens && {
      'x-ratelimit-limit-tokens': String(tokens.limit),
      'x-ratelimit-remaining-tokens': String(tokens.remaining),
      'x-ratelimit-reset-tokens': duration(tokens.resetMs),
    }),
  };
}

/** As Go writes it: `20ms`, `8.64s`, `6m0s`, `1h0m0s`. */
export function duration(ms: number): string {
  if (ms > 0 && ms < 1000) return `${ms}ms`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = `${(ms - minutes * 60_000) / 1000}s`;
  if (minutes === 0) return seconds;
  return minutes < 60 ? `${minutes}m${seconds}` : `${Math.floor(minutes / 60)}h${minutes % 60}m${seconds}`;
}

function overBudget(left: NanoDollars, required: NanoDollars, limits: KeyLimits, now: number): RouterError {
  const { amount = 0n, per = 'lifetime' } = limits.budget ?? {};
  const resetsAt = windowEnd(limits, now);
  const budget = {
    amount: formatUsd(amount),
    per,
    ...(resetsAt !== undefined && { resetsAt: new Date(resetsAt) }),
  };
  return new BudgetExceededError(budget, formatUsd(left), formatUsd(required));
}
