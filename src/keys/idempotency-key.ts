import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { setImmediate } from 'node:timers/promises';

import { InvalidRequestError } from '../errors/request-errors.ts';
import type { IdempotencyKey } from '../ledger/contract/ledger-store.ts';

/**
 * What a client calls its request in `Idempotency-Key`; undefined when it calls it nothing.
 *
 * @throws {InvalidRequestError} if it is no name: empty, too long, with spaces, or given twice
 */
export function idempotencyKeyOf(headers: IncomingHttpHeaders): string | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined || (typeof key === 'string' && /^[\u0021-\u007e]{1,255}$/.test(key))) return key;
  throw new InvalidRequestError(
    'invalid_idempotency_key',
    'The Idempotency-Key header must be 1 to 255 visible ASCII characters, given once.',
  );
}

/** The name and what was asked under it, as the ledger remembers them. */
export async function hashIdempotencyKey(key: string, body: Buffer): Promise<IdempotencyKey> {
  const hash = createHash('sha256');
  for (let at = 0; at < body.length; at += SLICE_BYTES) {
    if (at > 0) await setImmediate();
    hash.update(body.subarray(at, at + SLICE_BYTES));
  }
  return { key: createHash('sha256').update(key).digest('hex'), body: hash.digest('hex') };
}

/** Hashed in about a millisecond; then others have a turn. */
const SLICE_BYTES = 1024 * 1024;
