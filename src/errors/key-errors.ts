import { type ErrorBody, quote, retryAfter, RouterError } from './router-error.ts';

/** The key is missing, unknown, revoked or expired. */
export class AuthenticationError extends RouterError {
  readonly status = 401;
  readonly code: 'missing_api_key' | 'invalid_api_key' | 'revoked_api_key' | 'expired_api_key';
  readonly type = 'authentication_error';

  constructor(code: AuthenticationError['code']) {
    super(
      {
        missing_api_key: 'No API key was given. Send it as "Authorization: Bearer <key>".',
        invalid_api_key:
          'The API key is not known here. Check that it is complete and meant for this base URL.',
        revoked_api_key: 'The API key was revoked.',
        expired_api_key: 'The API key has expired. Ask for another one, or for more time.',
      }[code],
    );
    this.code = code;
  }

  override get headers(): Readonly<Record<string, string>> {
    return { 'www-authenticate': 'Bearer' };
  }
}

/** The host's `authenticate` or `cacheKey` threw, or returned what can't be used: whose request it is can't be known. */
export class AuthenticationUnavailableError extends RouterError {
  readonly status = 503;
  readonly code = 'authentication_unavailable';
  readonly type = 'server_error';
  override readonly shouldRetry = true;

  /** @param cause - for the operator, without secrets */
  constructor(cause: Error) {
    super('API keys can not be checked at the moment, so the request was not sent. Try again in a second.', {
      cause,
    });
  }

  override get headers(): Readonly<Record<string, string>> {
    return retryAfter(1000);
  }
}

/** The key may use some models, and this is none of them. */
export class ModelNotAllowedError extends RouterError {
  readonly status = 403;
  readonly code = 'model_not_allowed';
  readonly type = 'permission_error';
  override readonly param = 'model';

  /** @param patterns - of what the key may use */
  constructor(modelId: string, patterns: readonly string[]) {
    const shown = patterns.slice(0, 10).map(quote).join(', ');
    const more = patterns.length > 10 ? ` and ${patterns.length - 10} more` : '';
    super(`This key may not use the model ${quote(modelId)}; it may use ${shown}${more}.`);
  }
}

/** A limit of the key refused the request. */
export class RateLimitError extends RouterError {
  readonly status = 429;
  readonly code:
    | 'requests_per_minute_exceeded'
    | 'tokens_per_minute_exceeded'
    | 'too_many_concurrent_requests';
  readonly type = 'rate_limit_exceeded';
  override readonly shouldRetry = true;
  readonly retryAfterMs: number;
  /** So many a minute, or at once. */
  readonly limit: number;

  constructor(code: RateLimitError['code'], retryAfterMs: number, limit: number) {
    super(
      {
        requests_per_minute_exceeded: `This key's requests per minute, ${limit}, are used up; the next fits in ${retryAfterMs} ms.`,
        tokens_per_minute_exceeded: `This key's tokens per minute, ${limit}, are used up; this request fits in ${retryAfterMs} ms.`,
        too_many_concurrent_requests: `This key has as many requests running as it may, ${limit}; wait for one to end.`,
      }[code],
    );
    this.code = code;
    this.retryAfterMs = retryAfterMs;
    this.limit = limit;
  }

  override get headers(): Readonly<Record<string, string>> {
    return retryAfter(this.retryAfterMs);
  }
}

/** The key's own budget for its window is spent; amounts are decimal strings in USD. */
export class BudgetExceededError extends RouterError {
  readonly status = 402;
  readonly code = 'budget_exceeded';
  readonly type = 'insufficient_quota';
  readonly budget: ExceededBudget;
  /** What is left of it. */
  readonly left: string;
  readonly required: string;

  constructor(budget: ExceededBudget, left: string, required: string) {
    const { amount, per, resetsAt } = budget;
    const span = per === 'lifetime' ? 'its lifetime' : `the ${per}`;
    const again = resetsAt ? `; it begins anew at ${resetsAt.toISOString()}` : '';
    super(
      `This key's budget of $${amount} for ${span} has $${left} left and this request needs $${required}${again}.`,
    );
    this.budget = budget;
    this.left = left;
    this.required = required;
  }

  override toJSON(): ErrorBody {
    const { message, type, param, code, left, required } = this;
    const { amount, per, resetsAt } = this.budget;
    const budget = { amount, per, ...(resetsAt && { resets_at: resetsAt.toISOString() }) };
    return { error: { message, type, param, code, required, left, budget } };
  }
}

export interface ExceededBudget {
  readonly amount: string;
  readonly per: 'day' | 'week' | 'month' | 'lifetime';
  /** When it begins anew; undefined: never. */
  readonly resetsAt?: Date;
}
