import { InvalidRequestError, RouterError } from '../errors/errors.ts';

/** Refusals of the admin door, in the same shape as the router's: one class per cause, a stable `code`. */

/** `authorize` knows nobody by this request. */
export class UnauthorizedError extends RouterError {
  readonly status = 401;
  readonly code = 'unauthorized';
  readonly type = 'authentication_error';

  constructor() {
    super('The admin API is for operators, and this request is from none.');
  }

  override get headers(): Readonly<Record<string, string>> {
    return { 'www-authenticate': 'Bearer' };
  }
}

/** A page of another site let an operator's browser send it. */
export class CrossSiteRequestError extends RouterError {
  readonly status = 403;
  readonly code = 'cross_site_request';
  readonly type = 'permission_error';

  constructor(site: string) {
    super(`Changes are not taken from pages of other sites, and this one is ${JSON.stringify(site)}.`);
  }
}

/** A parameter or a member of the body is not what it must be. */
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

/** Nothing is there. */
export class NotFoundError extends RouterError {
  readonly status = 404;
  readonly code: 'unknown_endpoint' | 'account_not_found' | 'key_not_found';
  readonly type = 'invalid_request_error';

  constructor(code: NotFoundError['code'], message: string) {
    super(message);
    this.code = code;
  }
}

export function accountNotFound(account: string): NotFoundError {
  return new NotFoundError(
    'account_not_found',
    `There is no account ${account}. The first grant or the first key makes one.`,
  );
}

export function keyNotFound(account: string, key: string): NotFoundError {
  return new NotFoundError('key_not_found', `The account ${account} has no key ${key}.`);
}

export class AdminMethodNotAllowedError extends RouterError {
  readonly status = 405;
  readonly code = 'method_not_allowed';
  readonly type = 'invalid_request_error';
  readonly allow: string;

  /** @param allow - what the path takes, as the `allow` header says it */
  constructor(method: string, allow: string) {
    super(`${JSON.stringify(method.slice(0, 40))} is not served on this path; it takes ${allow}.`);
    this.allow = allow;
  }

  override get headers(): Readonly<Record<string, string>> {
    return { allow: this.allow };
  }
}

/** The change contradicts what is there; nothing was changed. */
export class ConflictError extends RouterError {
  readonly status = 409;
  readonly code:
    | 'id_already_used'
    | 'idempotency_key_reused'
    | 'key_revoked'
    | 'key_changing'
    | 'balance_too_low'
    | 'balance_too_large'
    | 'too_many_grants';
  readonly type = 'invalid_request_error';
  override readonly param: string | null;

  constructor(code: ConflictError['code'], message: string, param: string | null = null) {
    super(message);
    this.code = code;
    this.param = param;
  }
}

/** The store can't be reached or can't answer. */
export class AdminStoreUnavailableError extends RouterError {
  readonly status = 503;
  readonly code = 'credit_store_unavailable';
  readonly type = 'server_error';
  override readonly shouldRetry = true;

  /** @param maybeApplied - the command may have happened */
  constructor(maybeApplied: boolean, cause: unknown) {
    super(
      maybeApplied
        ? 'The credit store did not answer, and the change may have been applied or not. Send the same request again, with the same id or Idempotency-Key.'
        : 'The credit store can not be reached at the moment, and nothing was changed. Try again in a second.',
      { cause },
    );
  }

  override get headers(): Readonly<Record<string, string>> {
    return { 'retry-after': '1' };
  }
}

/** An account that the process which answers has known is not in the store any more. */
export class AccountLostError extends RouterError {
  readonly status = 503;
  readonly code = 'account_lost';
  readonly type = 'server_error';

  constructor(cause: Error) {
    super(
      'The account is not in the credit store any more, and nothing was changed. Restore the store, or make the account again, without what it had, by a grant or a key with "recreate": true.',
      { cause },
    );
  }
}

/**
 * Whatever the router's own functions threw, as something that an operator may see; as it is if they foresaw nothing.
 *
 * By name, not by class: bundlers make a second copy of a class for a second entry.
 */
export function toAdminError(thrown: unknown, isChange: boolean): unknown {
  if (!(thrown instanceof Error) || thrown instanceof RouterError) return thrown;
  if (thrown.name === 'StoreUnavailableError') {
    if (Reflect.get(thrown, 'code') === 'account_lost') return new AccountLostError(thrown);
    return new AdminStoreUnavailableError(isChange && Reflect.get(thrown, 'applied') !== 'no', thrown);
  }
  // The router's own arguments say what is wrong with them: "limit must be an integer from 1 to 1000, got 0".
  const [, param] = /^([a-zA-Z]+(?:\.[a-zA-Z]+)*)(?:\[.*\]| and \w+)? must be /.exec(thrown.message) ?? [];
  if (thrown.name === 'TypeError' && param !== undefined) {
    const name = snakeCase(param);
    return new InvalidValueError(`${name}${thrown.message.slice(param.length)}.`, name);
  }
  return thrown;
}

export function missingParameter(param: string, message: string): InvalidRequestError {
  return new InvalidRequestError('missing_required_parameter', message, param);
}

function snakeCase(param: string): string {
  return param.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
