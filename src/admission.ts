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
import type { AdmitResult } from './ledger/ledger.ts';
import { formatUsd, type NanoDollars } from './ledger/money.ts';
import { affordableOutputTokens, quoteFor, type Quote, withoutSearches } from './metering/estimate.ts';
import type { Model } from './models/catalog.ts';

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
    prices: model.prices,
  });
}

/** The limit of output that a hold covers; undefined where the request can't exceed it anyway. */
export function outputLimit(hold: NanoDollars, quote: Quote): number | undefined {
  if (hold >= quote.want) return undefined;
  const limit = affordableOutputTokens(hold, quote.promptTokens, withoutSearches(quote));
  return limit < quote.outputCap ? limit : undefined;
}

/** What the client is told when the ledger does not admit its request. */
export function refusal(result: AdmitResult, required: NanoDollars, quote: Quote): RouterError {
  switch (result.code) {
    case 'no_funds':
      return insufficient(required, result.available, quote);
    case 'no_account':
      return insufficient(required, 0n, quote);
    case 'budget':
      return new BudgetExceededError(formatUsd(result.left), formatUsd(required));
    case 'no_key':
      return new AuthenticationError('invalid_api_key');
    case 'revoked':
      return new AuthenticationError('revoked_api_key');
    case 'frozen':
      return new AccountFrozenError();
    case 'repeated': {
      const code = result.state === 'held' ? 'request_in_progress' : 'request_already_processed';
      return new RepeatedRequestError(code, result.requestId);
    }
    case 'key_reused':
      return new IdempotencyKeyReusedError(result.requestId);
    case 'concurrency':
      return new RateLimitError('too_many_concurrent_requests', 1000);
    case 'requests_per_minute':
      return new RateLimitError('requests_per_minute_exceeded', result.retryAfterMs);
    case 'tokens_per_minute':
      return new RateLimitError('tokens_per_minute_exceeded', result.retryAfterMs);
    case 'stale':
    case 'old':
    case 'ahead':
      return new CreditStoreUnavailableError();
    default:
      return new InternalError(new Error(`A new request was answered ${result.code} by the store`));
  }
}

function insufficient(required: NanoDollars, available: NanoDollars, quote: Quote): RouterError {
  // With the same bound on the prompt as what was required: asked again with it, the request fits.
  const affordable =
    required === quote.want
      ? affordableOutputTokens(available, quote.promptTokensAtMost, quote)
      : affordableOutputTokens(available, quote.promptTokens, withoutSearches(quote));
  return new InsufficientCreditsError(formatUsd(required), formatUsd(available), affordable);
}
