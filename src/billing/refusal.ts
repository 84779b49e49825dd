import {
  AccountFrozenError,
  CreditStoreUnavailableError,
  InsufficientCreditsError,
} from '../errors/credit-errors.ts';
import { AuthenticationError, BudgetExceededError, RateLimitError } from '../errors/key-errors.ts';
import { IdempotencyKeyReusedError, RepeatedRequestError } from '../errors/request-errors.ts';
import { InternalError, type RouterError } from '../errors/router-error.ts';
import type { ExceededLimit } from '../ledger/contract/key-records.ts';
import type { AdmitResult } from '../ledger/contract/ledger-store.ts';
import { formatUsd, type NanoDollars } from '../ledger/contract/money.ts';
import { windowEnd } from '../ledger/engine/key-limits.ts';

/** What a refused request asked for. */
export interface Need {
  /** The smallest hold that admits it. */
  readonly required: NanoDollars;
  /** The output tokens that an amount covers; 0 for what isn't counted in tokens. */
  readonly affordableTokens: (available: NanoDollars) => number;
}

/** The client's error when the ledger does not admit its request. */
export function refusalOf(result: AdmitResult, { required, affordableTokens }: Need): RouterError {
  const insufficient = (available: NanoDollars): RouterError =>
    new InsufficientCreditsError(formatUsd(required), formatUsd(available), affordableTokens(available));
  switch (result.code) {
    case 'no_funds':
      return insufficient(result.available);
    case 'no_account':
      return insufficient(0n);
    case 'budget':
      return overBudget(result, required, result.now);
    case 'no_key':
      return new AuthenticationError('invalid_api_key');
    case 'revoked':
      return new AuthenticationError('revoked_api_key');
    case 'paused':
      return new AuthenticationError('paused_api_key');
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
      return new RateLimitError('too_many_concurrent_requests', { ...result, retryAfterMs: 1000 });
    case 'requests_per_minute':
      return new RateLimitError('requests_per_minute_exceeded', result);
    case 'tokens_per_minute':
      return new RateLimitError('tokens_per_minute_exceeded', result);
    case 'stale':
    case 'old':
    case 'ahead':
      return new CreditStoreUnavailableError();
    default:
      return new InternalError(new Error(`The store answered a new request with ${result.code}`));
  }
}

function overBudget(
  { limitedBy, left, budget: { amount, per } }: Extract<ExceededLimit, { code: 'budget' }>,
  required: NanoDollars,
  now: number,
): RouterError {
  const budget = {
    amount: formatUsd(amount),
    per,
    ...(per !== 'lifetime' && { resetsAt: new Date(windowEnd(per, now)) }),
  };
  return new BudgetExceededError(limitedBy, budget, formatUsd(left), formatUsd(required));
}
