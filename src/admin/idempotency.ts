import { hash } from 'node:crypto';

import { InvalidRequestError } from '../errors/errors.ts';
import { missingParameter } from './errors.ts';

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
export function resolveChangeId(id: string | undefined, idempotencyKey: string | undefined): ChangeId {
  rejectBoth(id, idempotencyKey);
  if (id !== undefined) return { id, isDerived: false };
  if (idempotencyKey === undefined) {
    throw missingParameter(
      'id',
      'id is missing: give one, as a payment has, or an Idempotency-Key, so that the request can be repeated.',
    );
  }
  return { id: `idem-${hash('sha256', idempotencyKey, 'hex').slice(0, 40)}`, isDerived: true };
}

/**
 * The id that a key is made under, so that it is made once: its own, or one made from an `Idempotency-Key`; undefined
 * where it is to be another one each time.
 *
 * @throws a 400 where there are both
 */
export function keyIdOf(
  account: string,
  id: string | undefined,
  idempotencyKey: string | undefined,
): { readonly id: string | undefined; readonly isDerived: boolean } {
  rejectBoth(id, idempotencyKey);
  if (id !== undefined || idempotencyKey === undefined) return { id, isDerived: false };
  const digest = hash('sha256', `${account}\0${idempotencyKey}`, 'hex');
  return { id: base62(BigInt(`0x${digest}`)), isDerived: true };
}

/** The id that a rotation is remembered under. */
export function rotationIdOf(idempotencyKey: string): string {
  return hash('sha256', idempotencyKey, 'hex').slice(0, 20);
}

function rejectBoth(id: string | undefined, idempotencyKey: string | undefined): void {
  if (id === undefined || idempotencyKey === undefined || id === idempotencyKey) return;
  throw new InvalidRequestError(
    'ambiguous_parameter',
    'Both id and Idempotency-Key say which change this is: give one of them, or the same to both.',
    'id',
  );
}

/** As the ids that the router draws are, which a key begins with. */
function base62(number: bigint): string {
  let rest = number;
  return Array.from({ length: 10 }, () => {
    const character = ALPHABET[Number(rest % 62n)] ?? '';
    rest /= 62n;
    return character;
  }).join('');
}

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
