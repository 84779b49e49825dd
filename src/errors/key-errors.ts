import { type ErrorBody, retryAfter, RouterError } from './router-error.ts';

/** The key is missing, unknown, revoked or expired. */
export class AuthenticationError extends RouterError {
  readonly status = 401;
  readonly code: 'missing_api_key' | 'invalid_api_key' | 'revoked_api_key' | 'expired_api_key';
  readonly type = 'authentication_error';

  constructor(code: AuthenticationError['code']) {
    super(
      {
        missing_api_key: 'No API key was given. Send it as "Authorization: Bearer <key>".',
        invalid_api_key: 'The API key is unknown. Check that it is complete and belongs to this base URL.',
        revoked_api_key: 'The API key was revoked.',
        expired_api_key: 'The API key has expired. Ask its operator to issue or extend one.',
      }[code],
    );
    this.code = code;
  }

  override get headers(): Readonly<Record<string, string>> {
    return { 'www-authenticate': 'Bearer' };
  }
}

/** A session was used by a page of another origin than those that it was made for. */
export class OriginNotAllowedError extends RouterError {
  readonly status = 403;
  readonly code = 'origin_not_allowed';
  readonly type = 'permission_error';

  constructor() {
    super('This session was made for pages of another origin.');
  }
}

/** Your `authenticate` or `cacheKey` threw or returned an invalid value, so the request can't be authenticated. */
export class AuthenticationUnavailableError extends RouterError {
  readonly status = 503;
  readonly code = 'authentication_unavailable';
  readonly type = 'server_error';
  override readonly shouldRetry = true;

  /** @param cause - for the operator, without secrets */
  constructor(cause: Error) {
    super('API keys cannot be checked at the moment, so the request was not sent. Try again in a second.', {
      cause,
    });
  }

  override get headers(): Readonly<Record<string, string>> {
    return retryAfter(1000);
  }
}

/** A rate limit of the key is reached. */
export class RateLimitError extends RouterError {
  readonly status = 429;
  readonly code:
    | 'requests_per_minute_exceeded'
    | 'tokens_per_minute_exceeded'
    | 'too_many_concurrent_requests';
  readonly type = 'rate_limit_exceeded';
  override readonly shouldRetry = true;
  readonly retryAfterMs: number;
  /** Requests or tokens per minute, or concurrent requests. */
  readonly limit: number;

  constructor(code: RateLimitError['code'], retryAfterMs: number, limit: number) {
    super(
      {
        requests_per_minute_exceeded: `This key's limit of ${limit} requests per minute is reached; retry in ${retryAfterMs} ms.`,
        tokens_per_minute_exceeded: `This key's limit of ${limit} tokens per minute is reached; retry in ${retryAfterMs} ms.`,
        too_many_concurrent_requests: `This key's limit of ${limit} concurrent requests is reached; wait for one to end.`,
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

/** The key's budget doesn't cover the request. Amounts are decimal strings in USD. */
export class BudgetExceededError extends RouterError {
  readonly status = 402;
  readonly code = 'budget_exceeded';
  readonly type = 'insufficient_quota';
  readonly budget: ExceededBudget;
  /** The remaining budget. */
  readonly left: string;
  readonly required: string;

  constructor(budget: ExceededBudget, left: string, required: string) {
    const { amount, per, resetsAt } = budget;
    const span = per === 'lifetime' ? 'its lifetime' : `the ${per}`;
    const again = resetsAt ? `; it resets at ${resetsAt.toISOString()}` : '';
    super(
      `This key's budget of $${amount} for ${span} has $${left} left, but this request requires $${required}${again}.`,
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
  /** Undefined if it never resets. */
  readonly resetsAt?: Date;
}
