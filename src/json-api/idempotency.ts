import * as crypto from 'node:crypto';

import { InvalidRequestError } from '../errors/request-errors.ts';
import { missingParameter } from './errors.ts';

/** Id of a grant or an adjustment in the ledger. */
export interface ChangeId {
  readonly id: string;
  /** Derived from an `Idempotency-Key`. */
  readonly isDerived: boolean;
}

/**
 * The id of the body, or one derived from the `Idempotency-Key`. The ledger applies an id once, so an `Idempotency-Key`
 * is also applied once across processes and restarts.
 *
 * @throws {InvalidRequestError} if there is neither, or two different ones: the same key with another id would be applied twice
 */
export function resolveChangeId(id: string | undefined, idempotencyKey: string | undefined): ChangeId {
  rejectBoth(id, idempotencyKey);
  if (id !== undefined) return { id, isDerived: false };
  if (idempotencyKey === undefined) {
    throw missingParameter(
      'id',
      'id is missing. Send an id, such as the payment id, or an Idempotency-Key, so that the request can be retried.',
    );
  }
  return { id: `idem-${crypto.hash('sha256', idempotencyKey, 'hex').slice(0, 40)}`, isDerived: true };
}

/**
 * The id for a new API key, so that it is created once: that of the body, or one derived from the `Idempotency-Key`;
 * undefined if there is neither, and the router draws a random one.
 *
 * @throws {InvalidRequestError} if there are two different ones
 */
export function keyIdOf(
  account: string,
  id: string | undefined,
  idempotencyKey: string | undefined,
): { readonly id: string | undefined; readonly isDerived: boolean } {
  rejectBoth(id, idempotencyKey);
  if (id !== undefined || idempotencyKey === undefined) return { id, isDerived: false };
  const digest = crypto.hash('sha256', `${account}\0${idempotencyKey}`, 'hex');
  return { id: base62(BigInt(`0x${digest}`)), isDerived: true };
}

/** The rotation id that is stored with the key. */
export function rotationIdOf(idempotencyKey: string): string {
  return crypto.hash('sha256', idempotencyKey, 'hex').slice(0, 20);
}

function rejectBoth(id: string | undefined, idempotencyKey: string | undefined): void {
  if (id === undefined || idempotencyKey === undefined || id === idempotencyKey) return;
  throw new InvalidRequestError(
    'ambiguous_parameter',
    'id and Idempotency-Key both identify the change. Send one of them, or the same value in both.',
    'id',
  );
}

/** Ten characters, as in the random ids of API keys. */
function base62(number: bigint): string {
  let rest = number;
  return Array.from({ length: 10 }, () => {
    const character = ALPHABET[Number(rest % 62n)] ?? '';
    rest /= 62n;
    return character;
  }).join('');
}

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
