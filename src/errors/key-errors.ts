import { type ErrorBody, retryAfter, RouterError } from './router-error.ts';

/** The key is missing, unknown, revoked, paused or expired. */
export class AuthenticationError extends RouterError {
  readonly status = 401;
  readonly code:
    | 'missing_api_key'
    | 'invalid_api_key'
    | 'revoked_api_key'
    | 'paused_api_key'
    | 'expired_api_key';
  readonly type = 'authentication_error';

  constructor(code: AuthenticationError['code']) {
    super(
      {
        missing_api_key: 'No API key was given. Send it as "Authorization: Bearer <key>".',
        invalid_api_key: 'The API key is unknown. Check that it is complete and belongs to this base URL.',
        revoked_api_key: 'The API key was revoked.',
        paused_api_key: 'The API key is paused. Ask its operator to resume it.',
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

/** Your `authenticate` or `cacheKey` threw, returned an invalid value or took too long, so the request can't be authenticated. */
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

/** Whose limit refused a request. */
export type LimitedBy = 'key' | 'account' | 'end_user';

const OWNERS: Readonly<Record<LimitedBy, string>> = {
  key: "This key's",
  account: "This account's",
  end_user: "This end user's",
};

/** A rate limit of the key, of its account or of its end user is reached. */
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
  readonly limitedBy: LimitedBy;

  constructor(
    code: RateLimitError['code'],
    {
      retryAfterMs,
      limit,
      limitedBy,
    }: { readonly retryAfterMs: number; readonly limit: number; readonly limitedBy: LimitedBy },
  ) {
    const whose = OWNERS[limitedBy];
    super(
      {
        requests_per_minute_exceeded: `${whose} limit of ${limit} requests per minute is reached; retry in ${retryAfterMs} ms.`,
        tokens_per_minute_exceeded: `${whose} limit of ${limit} tokens per minute is reached; retry in ${retryAfterMs} ms.`,
        too_many_concurrent_requests: `${whose} limit of ${limit} concurrent requests is reached; wait for one to end.`,
      }[code],
    );
    this.code = code;
    this.limitedBy = limitedBy;
    this.retryAfterMs = retryAfterMs;
    this.limit = limit;
  }

  override get headers(): Readonly<Record<string, string>> {
    return retryAfter(this.retryAfterMs);
  }

  override toJSON(): ErrorBody {
    const { message, type, param, code, limitedBy: limited_by, limit } = this;
    return { error: { message, type, param, code, limited_by, limit } };
  }
}

/** A budget of the key, of its account or of its end user doesn't cover the request. Amounts are decimal strings in USD. */
export class BudgetExceededError extends RouterError {
  readonly status = 402;
  readonly code = 'budget_exceeded';
  readonly type = 'insufficient_quota';
  readonly limitedBy: LimitedBy;
  readonly budget: ExceededBudget;
  /** The remaining budget. */
  readonly left: string;
  readonly required: string;

  constructor(limitedBy: LimitedBy, budget: ExceededBudget, left: string, required: string) {
    const { amount, per, resetsAt } = budget;
    const span = per === 'lifetime' ? 'its lifetime' : `the ${per}`;
    const again = resetsAt ? `; it resets at ${resetsAt.toISOString()}` : '';
    super(
      `${OWNERS[limitedBy]} budget of $${amount} for ${span} has $${left} left, but this request requires $${required}${again}.`,
    );
    this.limitedBy = limitedBy;
    this.budget = budget;
    this.left = left;
    this.required = required;
  }

  override toJSON(): ErrorBody {
    const { message, type, param, code, limitedBy: limited_by, left, required } = this;
    const { amount, per, resetsAt } = this.budget;
    const budget = { amount, per, ...(resetsAt && { resets_at: resetsAt.toISOString() }) };
    return { error: { message, type, param, code, limited_by, required, left, budget } };
  }
}

export interface ExceededBudget {
  readonly amount: string;
  readonly per: 'hour' | 'day' | 'week' | 'month' | 'lifetime';
  /** Undefined if it never resets. */
  readonly resetsAt?: Date;
}

/** The account has too many calls at once that read its records. */
export class TooManyCallsError extends RouterError {
  readonly status = 429;
  readonly code = 'too_many_requests';
  readonly type = 'rate_limit_exceeded';
  override readonly shouldRetry = true;

  constructor(max: number) {
    super(`At most ${max} such calls of an account run at a time. Try again when one has been answered.`);
  }

  override get headers(): Readonly<Record<string, string>> {
    return retryAfter(1000);
  }
}
