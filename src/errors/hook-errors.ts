import { retryAfter, RouterError } from './router-error.ts';

/** Your `guard` refused the request, with a code and a message of its own. */
export class RequestRefusedError extends RouterError {
  readonly status: number;
  readonly code: string;
  readonly type = 'invalid_request_error';

  /** @param status - 400 to 499 */
  constructor(code: string, message: string, status: number) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** Your `route` threw, took too long or returned an invalid value. */
export class RouteUnavailableError extends RouterError {
  readonly status = 503;
  readonly code = 'route_unavailable';
  readonly type = 'server_error';
  override readonly shouldRetry = true;

  /** @param cause - for the operator, without secrets */
  constructor(cause: Error) {
    super('The model of this request cannot be chosen at the moment. Try again in a second.', { cause });
  }

  override get headers(): Readonly<Record<string, string>> {
    return retryAfter(1000);
  }
}

/** Your `guard` threw, took too long or returned an invalid value. */
export class GuardUnavailableError extends RouterError {
  readonly status = 503;
  readonly code = 'guard_unavailable';
  readonly type = 'server_error';
  override readonly shouldRetry = true;

  /** @param cause - for the operator, without secrets */
  constructor(cause: Error) {
    super('This request cannot be checked at the moment. Try again in a second.', { cause });
  }

  override get headers(): Readonly<Record<string, string>> {
    return retryAfter(1000);
  }
}
