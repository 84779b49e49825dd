import { retryAfter, RouterError } from './router-error.ts';

/** The provider failed, for a reason that isn't the client's request. */
export class UpstreamError extends RouterError {
  readonly status = 502;
  readonly code:
    | 'upstream_unreachable'
    | 'upstream_refused_credentials'
    | 'upstream_misconfigured'
    | 'upstream_invalid_response'
    | 'upstream_cut';
  readonly type = 'upstream_error';
  override readonly shouldRetry: boolean;

  constructor(code: UpstreamError['code'], message: string) {
    super(message);
    this.code = code;
    this.shouldRetry = code !== 'upstream_refused_credentials' && code !== 'upstream_misconfigured';
  }
}

/** What a provider said in an error: the `cause` of the errors that `onError` gets, never sent to a client. */
export class ProviderError extends Error {
  override readonly name = 'ProviderError';
  /** HTTP status of the provider's answer. */
  readonly status: number;
  /** The provider's own code, e.g. `model_not_found`; undefined if it gave none. */
  readonly code: string | undefined;

  /** @param message - the provider's message, on one line, with the API key redacted */
  constructor(message: string, status: number, code: string | undefined) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The provider's own error went to the client, unchanged: for `onError`, never sent itself. */
export class UpstreamAnswerError extends RouterError {
  readonly status: number;
  readonly code = 'upstream_error_status';
  readonly type = 'upstream_error';
  override readonly cause: ProviderError;

  constructor(cause: ProviderError) {
    super(`The model's provider answered with status ${cause.status}. The client got its answer.`);
    this.cause = cause;
    this.status = cause.status;
  }
}

/** The provider answered with an HTML error page. The status is passed on, the page isn't. */
export class UpstreamErrorPageError extends RouterError {
  readonly status: number;
  readonly code = 'upstream_error_page';
  readonly type = 'upstream_error';
  override readonly shouldRetry = true;

  constructor(status: number) {
    super(`The model's provider answered with status ${status} and an HTML page.`);
    this.status = status;
  }
}

/** The operator has ejected all targets of the model by hand: nothing was sent. */
export class TargetsEjectedError extends RouterError {
  readonly status = 503;
  readonly code = 'targets_ejected';
  readonly type = 'upstream_error';
  override readonly shouldRetry: boolean;
  readonly #retryInMs: number;

  /** @param retryInMs - until the first of them is used again; Infinity if an operator has to readmit it */
  constructor(retryInMs: number) {
    super('The operator of this server has taken all providers of the model out of use.');
    this.#retryInMs = retryInMs;
    this.shouldRetry = Number.isFinite(retryInMs);
  }

  override get headers(): Readonly<Record<string, string>> {
    return this.shouldRetry ? retryAfter(this.#retryInMs) : {};
  }
}

/** All targets of the model are at the limits that the operator has set for them: nothing was sent, and nothing is held. */
export class UpstreamAtCapacityError extends RouterError {
  readonly status = 429;
  readonly code = 'upstream_at_capacity';
  readonly type = 'rate_limit_exceeded';
  override readonly shouldRetry = true;
  readonly #retryInMs: number;

  /** @param retryInMs - until one of them may have room; Infinity if that is when another request ends */
  constructor(retryInMs: number) {
    const ms = Number.isFinite(retryInMs) ? Math.ceil(retryInMs) : 1000;
    super(`The model is asked for as much as its providers allow. Try again in ${Math.ceil(ms / 1000)} s.`);
    this.#retryInMs = ms;
  }

  override get headers(): Readonly<Record<string, string>> {
    return retryAfter(this.#retryInMs);
  }
}

/** All targets of the model are full, and as many requests wait for them as may: nothing was sent, and nothing is held. */
export class WaitingLineFullError extends RouterError {
  readonly status = 429;
  readonly code = 'waiting_line_full';
  readonly type = 'rate_limit_exceeded';
  override readonly shouldRetry = true;

  /** @param most - how many may wait */
  constructor(most: number) {
    super(`${most} requests wait for the model already, as many as may. Try again later.`);
  }

  override get headers(): Readonly<Record<string, string>> {
    return retryAfter(1000);
  }
}

/** The provider rejected the client's own key (BYOK), or the account of that key. */
export class ByokKeyRejectedError extends RouterError {
  readonly status: 401 | 402 | 403;
  readonly code = 'byok_key_rejected';
  readonly type = 'authentication_error';

  /** @param status - the status that the provider sent */
  constructor(status: ByokKeyRejectedError['status']) {
    super(`The model's provider rejected your own API key for it (${status}).`);
    this.status = status;
  }

  override get headers(): Readonly<Record<string, string>> {
    return this.status === 401 ? { 'www-authenticate': 'Bearer' } : {};
  }
}

/** One of the four timeouts for a provider expired. */
export class UpstreamTimeoutError extends RouterError {
  readonly status = 504;
  readonly code:
    | 'upstream_connect_timeout'
    | 'upstream_first_byte_timeout'
    | 'upstream_idle_timeout'
    | 'upstream_total_timeout';
  readonly type = 'upstream_error';
  override readonly shouldRetry = true;

  /** `wait`: the connect timeout, expired while the request waited for one of `maxConnections`. */
  readonly timeout: 'connect' | 'wait' | 'first_byte' | 'idle' | 'total';

  constructor(timeout: UpstreamTimeoutError['timeout'], timeoutMs: number) {
    super(
      {
        connect: `The connection to the model's provider took more than ${timeoutMs} ms.`,
        wait: `No connection to the model's provider became free within ${timeoutMs} ms.`,
        first_byte: `The model's provider did not begin to answer within ${timeoutMs} ms.`,
        idle: `The model's provider sent nothing for ${timeoutMs} ms in the middle of its answer.`,
        total: `The request was not finished within ${timeoutMs} ms.`,
      }[timeout],
    );
    this.timeout = timeout;
    this.code = `upstream_${timeout === 'wait' ? 'connect' : timeout}_timeout`;
  }
}
