import { type ErrorBody, quote, retryAfter, RouterError } from './router-error.ts';

/** The body isn't a valid chat completion request, or a header or query parameter is invalid. */
export class InvalidRequestError extends RouterError {
  readonly status = 400;
  readonly code:
    | 'invalid_json'
    | 'invalid_type'
    | 'invalid_value'
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
    super(`The request body did not arrive within ${timeoutMs} ms; ${received} bytes were received.`);
  }
}

export class RequestTooLargeError extends RouterError {
  readonly status = 413;
  readonly code = 'request_too_large';
  readonly type = 'invalid_request_error';

  /** @param limit - the largest body accepted, in bytes; or a message that names the server with the limit */
  constructor(limit: number | string) {
    super(typeof limit === 'string' ? limit : `The request body exceeds the limit of ${limit} bytes.`);
  }
}

/** The body isn't plain UTF-8 JSON: compressed, a form, another charset. */
export class UnsupportedMediaTypeError extends RouterError {
  readonly status = 415;
  readonly code: 'unsupported_content_type' | 'unsupported_content_encoding';
  readonly type = 'invalid_request_error';

  constructor(code: UnsupportedMediaTypeError['code'], message: string) {
    super(message);
    this.code = code;
  }
}

/** The limit for buffered bodies of requests that aren't admitted yet is reached, for the key or for the server. */
export class RequestBuffersFullError extends RouterError {
  readonly status = 503;
  readonly code = 'request_buffers_full';
  readonly type = 'server_error';
  override readonly shouldRetry = true;

  /** @param limit - in bytes */
  constructor(scope: 'key' | 'server', limit: number) {
    super(
      scope === 'key'
        ? `This key's pending request bodies would exceed their limit of ${limit} bytes. Try again in a second.`
        : 'This server has no memory for another request body at the moment. Try again in a second.',
    );
  }

  override get headers(): Readonly<Record<string, string>> {
    return retryAfter(1000);
  }
}

/** No request of this account has the ID, or it ended more than 24 hours ago. */
export class GenerationNotFoundError extends RouterError {
  readonly status = 404;
  readonly code = 'generation_not_found';
  readonly type = 'invalid_request_error';
  override readonly param = 'id';

  constructor(id: string) {
    super(
      `The generation ${quote(id)} was not found. Its ID is the x-request-id of the response; it is available for 24 hours after the response ended, or for as long as the router's log keeps it.`,
    );
  }
}

/** The request has not ended yet. */
export class GenerationRunningError extends RouterError {
  readonly status = 404;
  readonly code = 'generation_running';
  readonly type = 'invalid_request_error';
  override readonly param = 'id';
  override readonly shouldRetry = true;

  constructor(id: string) {
    super(`The generation ${quote(id)} is still running. Try again when it has ended.`);
  }

  override get headers(): Readonly<Record<string, string>> {
    return { 'retry-after': '1' };
  }
}

/** The path is no endpoint. */
export class UnknownEndpointError extends RouterError {
  readonly status = 404;
  readonly code: 'unknown_endpoint' | 'responses_not_supported';
  readonly type = 'invalid_request_error';

  constructor(method: string, path: string) {
    const responses = /(^|\/)responses(\/|$)/.test(path);
    super(
      responses
        ? `The Responses API is not supported; use POST /chat/completions. ${ENDPOINTS}`
        : `${quote(`${method} ${path}`)} is not an endpoint. ${ENDPOINTS}`,
    );
    this.code = responses ? 'responses_not_supported' : 'unknown_endpoint';
  }
}

/** The request's `Host` is not one of the server's `hostNames`. */
export class MisdirectedRequestError extends RouterError {
  readonly status = 421;
  readonly code = 'misdirected_request';
  readonly type = 'invalid_request_error';

  constructor(host: string | undefined) {
    super(
      host === undefined
        ? 'The request has no Host header, which this server requires.'
        : `The Host ${quote(host)} is not allowed. The operator of this server configures the allowed hosts.`,
    );
  }
}

export class MethodNotAllowedError extends RouterError {
  readonly status = 405;
  readonly code = 'method_not_allowed';
  readonly type = 'invalid_request_error';
  readonly allow: string;

  /** @param allow - the path's methods, as in the `allow` header: `GET, OPTIONS` */
  constructor(method: string, allow: string) {
    super(`The method ${quote(method)} is not allowed on this path; use ${allow}. ${ENDPOINTS}`);
    this.allow = allow;
  }

  override get headers(): Readonly<Record<string, string>> {
    return { allow: this.allow };
  }
}

/** Another request with the same `Idempotency-Key` is still running, or was charged already. */
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
        request_already_processed: `A request with this Idempotency-Key was processed and charged: ${originalRequestId}. Its answer is not stored; use another key for a new request.`,
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

/** The `Idempotency-Key` was used before with a different body. */
export class IdempotencyKeyReusedError extends RouterError {
  readonly status = 422;
  readonly code = 'idempotency_key_reused';
  readonly type = 'invalid_request_error';
  /** `x-request-id` of the answer that the first request got, or is getting. */
  readonly originalRequestId: string;

  constructor(originalRequestId: string) {
    super(`This Idempotency-Key was used for a request with a different body: ${originalRequestId}.`);
    this.originalRequestId = originalRequestId;
  }

  override toJSON(): ErrorBody {
    return withOriginalRequestId(super.toJSON(), this.originalRequestId);
  }
}

const ENDPOINTS =
  'The endpoints are GET /models, GET /models/{id}, POST /chat/completions, GET /credits, GET /generation, GET /key and GET /usage.';

function withOriginalRequestId({ error }: ErrorBody, original_request_id: string): ErrorBody {
  return { error: { ...error, original_request_id } };
}
