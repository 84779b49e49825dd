import { InvalidRequestError } from '../errors/request-errors.ts';
import { type JsonScanner, MAX_DEPTH } from '../json/scanner.ts';

/** A truncated body of at least this length may have exceeded a server's body limit; no known limit is lower. */
const CUT_BYTES = 100_000;
const CUT_BY_HOST =
  ' A server or framework before the router may have cut it (in Next.js, proxyClientMaxBodySize).';

/** The error for a body that isn't JSON. */
export function invalidJson({
  fault,
  faultAt: offset,
}: Pick<JsonScanner<string>, 'fault' | 'faultAt'>): InvalidRequestError {
  const why = {
    cut:
      offset === 0
        ? 'is empty; send a JSON object.'
        : `is not complete JSON: it ends after ${offset} bytes, in the middle.${offset < CUT_BYTES ? '' : CUT_BY_HOST}`,
    depth: `is nested deeper than ${MAX_DEPTH} levels.`,
    byte:
      offset === 0
        ? 'does not begin like JSON; send UTF-8 without a byte order mark (BOM).'
        : `is not valid JSON in UTF-8: unexpected byte at offset ${offset}.`,
  }[fault];
  return new InvalidRequestError('invalid_json', `The request body ${why}`);
}
