import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { setImmediate } from 'node:timers/promises';

import { InvalidRequestError } from '../errors/request-errors.ts';
import type { IdempotencyKey } from '../ledger/contract/ledger-store.ts';

/**
 * The `Idempotency-Key` of a request; undefined if it has none.
 *
 * @throws {InvalidRequestError} if it is empty, too long, has spaces, or is given twice
 */
export function idempotencyKeyOf(headers: IncomingHttpHeaders): string | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined || (typeof key === 'string' && /^[\u0021-\u007e]{1,255}$/.test(key))) return key;
  throw new InvalidRequestError(
    'invalid_idempotency_key',
    'The Idempotency-Key header must be 1 to 255 visible ASCII characters, given once.',
  );
}

/** SHA-256 of the key and of the request's body, as stored in the ledger. */
export async function hashIdempotencyKey(key: string, body: readonly Buffer[]): Promise<IdempotencyKey> {
  const hash = createHash('sha256');
  let hashed = 0;
  for (const chunk of body) {
    for (let at = 0; at < chunk.length; at += SLICE_BYTES) {
      if (hashed >= SLICE_BYTES) {
        await setImmediate();
        hashed = 0;
      }
      const slice = chunk.subarray(at, at + SLICE_BYTES);
      hash.update(slice);
      hashed += slice.length;
    }
  }
  return { key: createHash('sha256').update(key).digest('hex'), body: hash.digest('hex') };
}

/** Takes about a millisecond to hash; between slices, the event loop runs other work. */
const SLICE_BYTES = 1024 * 1024;
