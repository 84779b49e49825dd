import { InvalidRequestError } from '../errors/request-errors.ts';
import { RouterError } from '../errors/router-error.ts';
import { snakeCase } from './in-json.ts';

/** Errors of the admin API and of the account API, in the router's shape: one class per cause, a stable `code`. */

/** The request has no valid credentials. */
export class UnauthorizedError extends RouterError {
  readonly status = 401;
  readonly code = 'unauthorized';
  readonly type = 'authentication_error';

  override get headers(): Readonly<Record<string, string>> {
    return { 'www-authenticate': 'Bearer' };
  }
}

/** The request was sent by an operator's browser from a page of another site. */
export class CrossSiteRequestError extends RouterError {
  readonly status = 403;
  readonly code = 'cross_site_request';
  readonly type = 'permission_error';

  /** @param source - the value of `Sec-Fetch-Site` or `Origin` */
  constructor(source: string) {
    super(`Changes from pages of other sites are rejected; this request is from ${JSON.stringify(source)}.`);
  }
}

/** The caller may not do this. */
export class NotPermittedError extends RouterError {
  readonly status = 403;
  readonly code = 'not_permitted';
  readonly type = 'permission_error';

  /**
   * @param needed - the permission
   * @param has - the caller's permissions
   */
  constructor(caller: string, needed: string, has: readonly string[]) {
    super(
      `${caller} may not do this: it needs the permission ${needed}. Permissions: ${has.join(', ') || 'none'}.`,
    );
  }
}

/** A parameter or a member of the body has an invalid value. */
export class InvalidValueError extends RouterError {
  readonly status = 400;
  readonly code = 'invalid_value';
  readonly type = 'invalid_request_error';
  override readonly param: string;

  constructor(message: string, param: string) {
    super(message);
    this.param = param;
  }
}

export class NotFoundError extends RouterError {
  readonly status = 404;
  readonly code:
    | 'unknown_endpoint'
    | 'account_not_found'
    | 'key_not_found'
    | 'end_users_not_limited'
    | 'allowance_not_found'
    | 'request_not_found'
    | 'session_not_found'
    | 'provider_not_found'
    | 'model_not_found'
    | 'target_not_found';
  readonly type = 'invalid_request_error';

  constructor(code: NotFoundError['code'], message: string) {
    super(message);
    this.code = code;
  }
}

export function accountNotFound(account: string): NotFoundError {
  return new NotFoundError(
    'account_not_found',
    `There is no account ${account}. The first grant or API key creates it.`,
  );
}

export function keyNotFound(account: string, key: string): NotFoundError {
  return new NotFoundError('key_not_found', `Account ${account} has no key ${key}.`);
}

export function endUsersNotLimited(account: string): NotFoundError {
  return new NotFoundError(
    'end_users_not_limited',
    `Account ${account} has no limits of end users: set end_users in its policy, or in that of a key.`,
  );
}

export function providerNotFound(provider: string, names: readonly string[]): NotFoundError {
  const asked = JSON.stringify(provider.slice(0, 200));
  return new NotFoundError(
    'provider_not_found',
    `There is no provider ${asked}. Providers: ${names.slice(0, 20).join(', ')}.`,
  );
}

export function modelNotFound(model: string): NotFoundError {
  return new NotFoundError('model_not_found', `There is no model ${JSON.stringify(model)}.`);
}

/** @param places - the targets of the model, such as `openai/gpt-5` */
export function targetNotFound(model: string, place: string, places: readonly string[]): NotFoundError {
  const asked = JSON.stringify(place.slice(0, 400));
  return new NotFoundError(
    'target_not_found',
    `${model} has no target ${asked}. Targets: ${places.slice(0, 20).join(', ')}.`,
  );
}

/** The message doesn't show what was sent: it may be a secret. */
export function noSuchKey(): NotFoundError {
  return new NotFoundError('key_not_found', 'No key has this secret or id, or it was rotated since.');
}

export class AdminMethodNotAllowedError extends RouterError {
  readonly status = 405;
  readonly code = 'method_not_allowed';
  readonly type = 'invalid_request_error';
  readonly allow: string;

  /** @param allow - allowed methods, as in the `allow` header */
  constructor(method: string, allow: string) {
    super(`${JSON.stringify(method.slice(0, 40))} is not allowed on this path, which takes ${allow}.`);
    this.allow = allow;
  }

  override get headers(): Readonly<Record<string, string>> {
    return { allow: this.allow };
  }
}

/** The change conflicts with the current state; nothing was changed. */
export class ConflictError extends RouterError {
  readonly status = 409;
  readonly code:
    | 'id_already_used'
    | 'idempotency_key_reused'
    | 'key_ambiguous'
    | 'key_revoked'
    | 'key_changing'
    | 'balance_too_low'
    | 'balance_too_large'
    | 'too_many_grants'
    | 'too_many_allowances'
    | 'allowance_ended'
    | 'not_settled'
    | 'more_than_charged'
    | 'journal_compacted'
    | 'requests_running'
    | 'sessions_disabled'
    | 'not_weighted';
  readonly type = 'invalid_request_error';
  override readonly param: string | null;

  constructor(code: ConflictError['code'], message: string, param: string | null = null) {
    super(message);
    this.code = code;
    this.param = param;
  }
}

/** The store is unreachable or didn't answer. */
export class AdminStoreUnavailableError extends RouterError {
  readonly status = 503;
  readonly code = 'credit_store_unavailable';
  readonly type = 'server_error';
  override readonly shouldRetry = true;

  /** @param maybeApplied - the store may have applied the command */
  constructor(maybeApplied: boolean, cause: unknown) {
    super(
      maybeApplied
        ? 'The credit store did not answer; the change may have been applied. Send the same request again, with the same id or Idempotency-Key.'
        : 'The credit store is unavailable; nothing was changed. Try again in a second.',
      { cause },
    );
  }

  override get headers(): Readonly<Record<string, string>> {
    return { 'retry-after': '1' };
  }
}

/** This process has known the account, and the store has lost it. */
export class AccountLostError extends RouterError {
  readonly status = 503;
  readonly code = 'account_lost';
  readonly type = 'server_error';

  constructor(cause: Error) {
    super(
      'The credit store has lost this account; nothing was changed. Restore the store, or recreate the account without its data: send a grant or a key with "recreate": true.',
      { cause },
    );
  }
}

/**
 * Turns an error of the router's functions into one that an operator may see; returns an unexpected one unchanged.
 *
 * Compares names, not classes: bundlers duplicate a class for a second entry point.
 */
export function toAdminError(thrown: unknown, isChange: boolean): unknown {
  if (!(thrown instanceof Error) || thrown instanceof RouterError) return thrown;
  if (thrown.name === 'StoreUnavailableError') {
    if (Reflect.get(thrown, 'code') === 'account_lost') return new AccountLostError(thrown);
    return new AdminStoreUnavailableError(isChange && Reflect.get(thrown, 'applied') !== 'no', thrown);
  }
  // A TypeError of the router names the argument: "limit must be an integer from 1 to 1000, got 0".
  const [, param] =
    /^([a-zA-Z]+(?:\.[a-zA-Z]+)*)(?:\[.*\]|(?:, \w+)* and \w+)? must be /.exec(thrown.message) ?? [];
  if (thrown.name === 'TypeError' && param !== undefined) {
    const name = snakeCase(param);
    return new InvalidValueError(`${name}${thrown.message.slice(param.length)}.`, name);
  }
  return thrown;
}

export function missingParameter(param: string, message: string): InvalidRequestError {
  return new InvalidRequestError('missing_required_parameter', message, param);
}

/** As the beginning of a sentence. */
export function capitalize(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
