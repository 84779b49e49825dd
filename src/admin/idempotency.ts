import { hash } from 'node:crypto';

import { InvalidRequestError } from '../errors.ts';
import { missing } from './errors.ts';

/** The id under which the ledger remembers a grant or an adjustment, and whose word it is. */
export interface ChangeId {
  readonly id: string;
  /** It was made from an `Idempotency-Key`. */
  readonly isDerived: boolean;
}

/**
 * A change's own id, or one made from its `Idempotency-Key`: what the ledger does once by id, is done once by key
 * in whatever process it arrives, and after a restart.
 *
 * @throws a 400 where there is neither, or both: the same key could come with another id, and be done twice
 */
export function changeId(id: string | undefined, idempotencyKey: string | undefined): ChangeId {
  if (id !== undefined && idempotencyKey !== undefined && id !== idempotencyKey) {
    throw new InvalidRequestError(
      'ambiguous_parameter',
      'Both id and Idempotency-Key say which change this is: give one of them, or the same to both.',
      'id',
    );
  }
  if (id !== undefined) return { id, isDerived: false };
  if (idempotencyKey === undefined) {
    throw missing(
      'id',
      'id is missing: give one, as a payment has, or an Idempotency-Key, so that the request can be repeated.',
    );
  }
  return { id: `idem-${hash('sha256', idempotencyKey, 'hex').slice(0, 40)}`, isDerived: true };
}
