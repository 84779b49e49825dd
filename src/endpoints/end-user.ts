import type { IncomingHttpHeaders } from 'node:http';

import { InvalidRequestError } from '../errors/request-errors.ts';
import type { ChatRequest } from '../http/chat-request.ts';
import { MAX_END_USER_LENGTH } from '../ledger/contract/key-records.ts';
import type { EndUserSettings } from '../options/resolve-options.ts';

/**
 * Whom a request is for, by its header or body; undefined if unknown, or not read.
 *
 * @throws {InvalidRequestError} for a header that is too long
 */
export function endUserOf(
  headers: IncomingHttpHeaders,
  { endUser }: ChatRequest,
  settings: EndUserSettings | undefined,
): string | undefined {
  const name = settings?.header;
  const given = name === undefined ? undefined : headers[name];
  const value = Array.isArray(given) ? given.join(', ') : given;
  if (name === undefined || value === undefined || value === '') return endUser;
  if (value.length <= MAX_END_USER_LENGTH) return value;
  throw new InvalidRequestError(
    'invalid_type',
    `The header "${name}" must have at most ${MAX_END_USER_LENGTH} characters, got ${value.length}.`,
    name,
  );
}
