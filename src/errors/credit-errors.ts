import { type ErrorBody, retryAfter, RouterError } from './router-error.ts';

/** The account was frozen by its operator, or because its balance failed verification. */
export class AccountFrozenError extends RouterError {
  readonly status = 403;
  readonly code = 'account_frozen';
  readonly type = 'permission_error';

  constructor() {
    super('This account is frozen. Contact support; your credits are safe.');
  }
}

/** The balance doesn't cover the hold for this request. Amounts are decimal strings in USD. */
export class InsufficientCreditsError extends RouterError {
  readonly status = 402;
  readonly code = 'insufficient_credits';
  readonly type = 'insufficient_quota';
  /** The smallest hold that this request needs, in USD. */
  readonly required: string;
  /** The balance available now, in USD. */
  readonly available: string;
  /** The largest output limit that the balance covers for this request; 0 if not even one token fits. */
  readonly affordableMaxTokens: number;

  constructor(required: string, available: string, affordableMaxTokens: number) {
    super(
      `This request requires $${required} of credits, but only $${available} is available` +
        (affordableMaxTokens > 0
          ? `. It fits with at most ${affordableMaxTokens} output tokens.`
          : '. Add credits and try again.'),
    );
    this.required = required;
    this.available = available;
    this.affordableMaxTokens = affordableMaxTokens;
  }

  override toJSON(): ErrorBody {
    const { message, type, param, code, required, available } = this;
    const affordable_max_tokens = this.affordableMaxTokens;
    return { error: { message, type, param, code, required, available, affordable_max_tokens } };
  }
}

/** A stream used up its hold, and the balance or the key's budget doesn't cover more. */
export class CreditsExhaustedError extends RouterError {
  readonly status = 402;
  readonly code = 'credits_exhausted';
  readonly type = 'insufficient_quota';

  constructor() {
    super('The credits ran out during this answer; the part that was delivered was charged.');
  }
}

/**
 * The credit store is unavailable, or isn't shared by the app's instances: no request is sent without it, and a stream
 * ends at what it held.
 */
export class CreditStoreUnavailableError extends RouterError {
  readonly status = 503;
  readonly code: 'credit_store_unavailable' | 'store_not_shared';
  readonly type = 'server_error';
  override readonly shouldRetry: boolean;

  /**
   * @param failure - the store's error, for the operator
   * @param inAnswer - the request was sent, and its answer ends now
   */
  constructor(failure?: Error, inAnswer = false) {
    const cause = failure?.cause instanceof Error ? failure.cause : failure;
    const notShared = cause !== undefined && 'code' in cause && cause.code === 'store_not_shared';
    super(
      notShared
        ? 'This server keeps its credits in a file that its instances do not share, so the request was not sent. Its operator must configure another store.'
        : inAnswer
          ? 'Credits cannot be checked at the moment, so this answer has ended early.'
          : 'Credits cannot be checked at the moment, so the request was not sent. Try again in a second.',
      { cause },
    );
    this.code = notShared ? 'store_not_shared' : 'credit_store_unavailable';
    this.shouldRetry = !notShared;
  }

  override get headers(): Readonly<Record<string, string>> {
    return this.shouldRetry ? retryAfter(1000) : {};
  }
}
