import { RouterError } from '../errors/router-error.ts';

/** Errors of the account API alone. */

/** The operator made the key, and not the customer. */
export class KeyNotManagedError extends RouterError {
  readonly status = 403;
  readonly code = 'key_not_managed';
  readonly type = 'permission_error';

  constructor(id: string) {
    super(
      `Key ${id} was made for this account by the operator: it can be rotated and revoked here, not changed.`,
    );
  }
}

/** The account has as many API keys as it may have. */
export class TooManyKeysError extends RouterError {
  readonly status = 409;
  readonly code = 'too_many_keys';
  readonly type = 'invalid_request_error';

  /**
   * @param usable - those that are not revoked
   * @param max - as the option maxKeys
   */
  constructor(usable: number, all: number, max: number) {
    super(
      `This account has ${usable} API keys, ${all} with those that were revoked. It may have ${max}, and ${max * 10} with those.`,
    );
  }
}

/** A session for the playground can't be made. */
export class NoPlaygroundError extends RouterError {
  readonly status = 409;
  readonly code = 'playground_disabled';
  readonly type = 'invalid_request_error';
}
