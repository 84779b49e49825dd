/**
 * Every refusal of ours that a client can see: one class per cause, a stable
 * `code`, OpenAI's body.
 *
 * A message says what happened with the numbers in it; it never holds a key, a
 * request's content or a provider's URL.
 */

import { type ErrorBody, quote, retryAfter, RouterError } from './router-error.ts';

export * from './key-errors.ts';
export { type ErrorBody, RouterError } from './router-error.ts';

/** The account was frozen by its operator, or by a failed check of its books. */
export class AccountFrozenError extends RouterError {
  readonly status = 403;
  readonly code = 'account_frozen';
  readonly type = 'permission_error';

  constructor() {
    super('This account is frozen. Its credits are safe; ask its operator to open it again.');
  }
}

/** The request's body can't be used as a chat completion request, or a header of it as what it is for. */
export class InvalidRequestError extends RouterError {
  readonly status = 400;
  readonly code:
    | 'invalid_json'
    | 'invalid_type'
    | 'missing_required_parameter'
    | 'ambiguous_parameter'
    | 'unsupported_parameter'
    | 'unsupported_service_tier'
    | 'unpriced_feature'
    | 'truncated_body'
    | 'provider_not_found'
    | 'provider_not_available'
    | 'invalid_idempotency_key'
    | 'content_policy_violation';
  readonly type = 'invalid_request_error';
  override readonly param: string | null;

  constructor(code: InvalidRequestError['code'], message: string, param: string | null = null) {
    super(message);
    this.code = code;
    this.param = param;
  }
}

/** The body took longer to arrive than the router waits. */
export class RequestTimeoutError extends RouterError {
  readonly status = 408;
  readonly code = 'request_timeout';
  readonly type = 'invalid_request_error';
  override readonly shouldRetry = true;

  constructor(received: number, timeoutMs: number) {
    super(`The request body did not arrive in ${timeoutMs} ms; ${received} bytes came.`);
  }
}

export class RequestTooLargeError extends RouterError {
  readonly status = 413;
  readonly code = 'request_too_large';
  readonly type = 'invalid_request_error';

  /** @param limit - the largest body accepted, in bytes; or a message that names whose limit it was */
  constructor(limit: number | string) {
    super(
      typeof limit === 'string' ? limit : `The request body is larger than the ${limit} bytes accepted here.`,
    );
  }
}

/** The body is not UTF-8 JSON as it stands: compressed, a form, another charset. */
export class UnsupportedMediaTypeError extends RouterError {
  readonly status = 415;
  readonly code: 'unsupported_content_type' | 'unsupported_content_encoding';
  readonly type = 'invalid_request_error';

  constructor(code: UnsupportedMediaTypeError['code'], message: string) {
    super(message);
    this.code = code;
  }
}

export class ModelNotFoundError extends RouterError {
  readonly status = 404;
  readonly code = 'model_not_found';
  readonly type = 'invalid_request_error';
  override readonly param = 'model';

  constructor(modelId: string) {
    super(`The model ${quote(modelId)} does not exist here. GET /models lists those that do.`);
  }
}

/** There was such a model, until a day that was told before. */
export class ModelShutDownError extends RouterError {
  readonly status = 404;
  readonly code = 'model_shut_down';
  readonly type = 'invalid_request_error';
  override readonly param = 'model';

  constructor(modelId: string, day: string, replacement: string | undefined) {
    const instead =
      replacement === undefined
        ? 'GET /models lists those that there are.'
        : `Use ${quote(replacement)} instead.`;
    super(`The model ${quote(modelId)} was shut down on ${day}. ${instead}`);
  }
}

/** A generation is asked for by the id of no request of the caller's that is remembered. */
export class GenerationNotFoundError extends RouterError {
  readonly status = 404;
  readonly code = 'generation_not_found';
  readonly type = 'invalid_request_error';
  override readonly param = 'id';

  constructor(id: string) {
    super(
      `There is no generation ${quote(id)} of yours. Its id is the x-request-id of its answer; it is kept for 24 hours after its end.`,
    );
  }
}

/** A generation is asked for before it is over. */
export class GenerationRunningError extends RouterError {
  readonly status = 404;
  readonly code = 'generation_running';
  readonly type = 'invalid_request_error';
  override readonly param = 'id';
  override readonly shouldRetry = true;

  constructor(id: string) {
    super(`The generation ${quote(id)} is still running: ask again when it is over.`);
  }

  override get headers(): Readonly<Record<string, string>> {
    return { 'retry-after': '1' };
  }
}

/** Nothing is served under this path. */
export class UnknownEndpointError extends RouterError {
  readonly status = 404;
  readonly code: 'unknown_endpoint' | 'responses_not_supported';
  readonly type = 'invalid_request_error';

  constructor(method: string, path: string) {
    const responses = /(^|\/)responses(\/|$)/.test(path);
    super(
      responses
        ? `The Responses interface is not served here; use POST /chat/completions. ${SERVED}`
        : `${quote(`${method} ${path}`)} is not served here. ${SERVED}`,
    );
    this.code = responses ? 'responses_not_supported' : 'unknown_endpoint';
  }
}

/** The server was asked by a name that is none of its own. */
export class MisdirectedRequestError extends RouterError {
  readonly status = 421;
  readonly code = 'misdirected_request';
  readonly type = 'invalid_request_error';

  constructor(host: string | undefined) {
    super(
      `${host === undefined ? 'A request without a Host' : `The Host ${quote(host)}`} is not served here. The operator of this server names the hosts that are.`,
    );
  }
}

export class MethodNotAllowedError extends RouterError {
  readonly status = 405;
  readonly code = 'method_not_allowed';
  readonly type = 'invalid_request_error';
  readonly allow: string;

  /** @param allow - what the path takes, as the `allow` header says it: `GET, OPTIONS` */
  constructor(method: string, allow: string) {
    super(`${quote(method)} is not served on this path; it takes ${allow}. ${SERVED}`);
    this.allow = allow;
  }

  override get headers(): Readonly<Record<string, string>> {
    return { allow: this.allow };
  }
}

/** The account can't cover what this request must hold; amounts are decimal strings in USD. */
export class InsufficientCreditsError extends RouterError {
  readonly status = 402;
  readonly code = 'insufficient_credits';
  readonly type = 'insufficient_quota';
  /** The least this request needs, in USD. */
  readonly required: string;
  /** What the account could spend now, in USD. */
  readonly available: string;
  /** The largest output limit that the same request could be sent with; 0 when not even one token fits. */
  readonly affordableMaxTokens: number;

  constructor(required: string, available: string, affordableMaxTokens: number) {
    super(
      `This request needs $${required} of credits and $${available} are available` +
        (affordableMaxTokens > 0
          ? `; with at most ${affordableMaxTokens} output tokens it could run.`
          : '; add credits and send it again.'),
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

/** What was held for a stream is used up, and the balance or the key's budget has no more. */
export class CreditsExhaustedError extends RouterError {
  readonly status = 402;
  readonly code = 'credits_exhausted';
  readonly type = 'insufficient_quota';

  constructor() {
    super('The credits ran out in the middle of this answer; what was delivered was charged.');
  }
}

/** Another request with the same `Idempotency-Key` still runs, or was charged already. */
export class RepeatedRequestError extends RouterError {
  readonly status = 409;
  readonly code: 'request_in_progress' | 'request_already_processed';
  readonly type = 'invalid_request_error';
  override readonly shouldRetry: boolean;
  /** `x-request-id` of the answer that the first request got, or is getting. */
  readonly originalRequestId: string;

  constructor(code: RepeatedRequestError['code'], originalRequestId: string) {
    super(
      {
        request_in_progress: `A request with this Idempotency-Key is still running: ${originalRequestId}.`,
        request_already_processed: `A request with this Idempotency-Key was processed and charged: ${originalRequestId}. Its answer is not kept; use another key to ask again.`,
      }[code],
    );
    this.code = code;
    this.shouldRetry = code === 'request_in_progress';
    this.originalRequestId = originalRequestId;
  }

  override get headers(): Readonly<Record<string, string>> {
    return this.shouldRetry ? retryAfter(1000) : {};
  }

  override toJSON(): ErrorBody {
    return withOriginalRequestId(super.toJSON(), this.originalRequestId);
  }
}

/** Another request had the same `Idempotency-Key`, and another body. */
export class IdempotencyKeyReusedError extends RouterError {
  readonly status = 422;
  readonly code = 'idempotency_key_reused';
  readonly type = 'invalid_request_error';
  /** `x-request-id` of the answer that the first request got, or is getting. */
  readonly originalRequestId: string;

  constructor(originalRequestId: string) {
    super(`This Idempotency-Key belongs to a request with another body: ${originalRequestId}.`);
    this.originalRequestId = originalRequestId;
  }

  override toJSON(): ErrorBody {
    return withOriginalRequestId(super.toJSON(), this.originalRequestId);
  }
}

/** The credit store can't be reached, can't answer, or must not be used where it is; without it nothing is sent. */
export class CreditStoreUnavailableError extends RouterError {
  readonly status = 503;
  readonly code: 'credit_store_unavailable' | 'store_not_shared';
  readonly type = 'server_error';
  override readonly shouldRetry: boolean;

  /** @param failure - what the store said, for the operator */
  constructor(failure?: Error) {
    const cause = failure?.cause instanceof Error ? failure.cause : failure;
    const notShared = cause !== undefined && 'code' in cause && cause.code === 'store_not_shared';
    super(
      notShared
        ? 'The credits of this server are in a file that its instances do not share, so nothing is sent. Its operator must give it another store.'
        : 'Credits can not be checked at the moment, so the request was not sent. Try again in a second.',
      { cause },
    );
    this.code = notShared ? 'store_not_shared' : 'credit_store_unavailable';
    this.shouldRetry = !notShared;
  }

  override get headers(): Readonly<Record<string, string>> {
    return this.shouldRetry ? retryAfter(1000) : {};
  }
}

/** The bodies of requests that aren't admitted yet hold as many bytes as they may, those of the key or of all. */
export class RequestBuffersFullError extends RouterError {
  readonly status = 503;
  readonly code = 'request_buffers_full';
  readonly type = 'server_error';
  override readonly shouldRetry = true;

  /** @param limit - in bytes */
  constructor(whose: 'key' | 'server', limit: number) {
    super(
      whose === 'key'
        ? `The bodies of this key's requests that aren't admitted yet hold ${limit} bytes, as many as they may. Try again in a second.`
        : 'This server has no room for another request body at the moment. Try again in a second.',
    );
  }

  override get headers(): Readonly<Record<string, string>> {
    return retryAfter(1000);
  }
}

/** The router is closing: what runs is finished, nothing new begins. */
export class RouterClosingError extends RouterError {
  readonly status = 503;
  readonly code = 'router_closing';
  readonly type = 'server_error';
  override readonly shouldRetry = true;

  constructor() {
    super('This server is shutting down. Try again in a second.');
  }

  override get headers(): Readonly<Record<string, string>> {
    return retryAfter(1000);
  }
}

/** The provider could not be used, for a reason that is not the client's. */
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

/** The provider refused the request with a page of HTML, which keeps its status and is not passed on. */
export class UpstreamErrorPageError extends RouterError {
  readonly status: number;
  readonly code = 'upstream_error_page';
  readonly type = 'upstream_error';
  override readonly shouldRetry = true;

  constructor(status: number) {
    super(`The model's provider answered with status ${status} and a page in place of an error.`);
    this.status = status;
  }
}

/** The provider refused the client's own key for it, or that key's account there. */
export class ByokKeyRejectedError extends RouterError {
  readonly status: 401 | 402 | 403;
  readonly code = 'byok_key_rejected';
  readonly type = 'authentication_error';

  /** @param status - the provider's own */
  constructor(status: ByokKeyRejectedError['status']) {
    super(`The model's provider refused the API key of your own that is used for it (${status}).`);
    this.status = status;
  }

  override get headers(): Readonly<Record<string, string>> {
    return this.status === 401 ? { 'www-authenticate': 'Bearer' } : {};
  }
}

/** One of the four clocks ran out while waiting for the provider. */
export class UpstreamTimeoutError extends RouterError {
  readonly status = 504;
  readonly code:
    | 'upstream_connect_timeout'
    | 'upstream_first_byte_timeout'
    | 'upstream_idle_timeout'
    | 'upstream_total_timeout';
  readonly type = 'upstream_error';
  override readonly shouldRetry = true;

  constructor(clock: 'connect' | 'first_byte' | 'idle' | 'total', timeoutMs: number) {
    super(
      {
        connect: `The model's provider could not be connected to in ${timeoutMs} ms.`,
        first_byte: `The model's provider did not begin to answer in ${timeoutMs} ms.`,
        idle: `The model's provider went silent for ${timeoutMs} ms in the middle of its answer.`,
        total: `The request was not finished in ${timeoutMs} ms.`,
      }[clock],
    );
    this.code = `upstream_${clock}_timeout`;
  }
}

/** Whatever isn't one of the above is our bug: told to the host whole, to the client without details. */
export class InternalError extends RouterError {
  readonly status = 500;
  readonly code = 'internal_error';
  readonly type = 'server_error';

  constructor(cause: unknown) {
    super('The router failed on this request. Its operator has been told.', { cause });
  }
}

const SERVED =
  'Served are GET /models, GET /models/{id}, POST /chat/completions, GET /credits and GET /generation.';

/** A system error as a cause that may be kept and shown: a parser's own holds the bytes of the answer. */
export function withoutAnswerBytes(error: Error): Error {
  const code = 'code' in error ? { code: error.code } : {};
  return Object.assign(new Error(error.message), code);
}

function withOriginalRequestId({ error }: ErrorBody, original_request_id: string): ErrorBody {
  return { error: { ...error, original_request_id } };
}
