import type { IncomingHttpHeaders } from 'node:http';

import { asError } from '../platform/as-error.ts';

/** Shorter ones are words. */
const MIN_SECRET_LENGTH = 8;
const MAX_MESSAGE_LENGTH = 300;

/**
 * What the host's `authenticate` threw, as it may be logged: on one line, with asterisks in place of what the client
 * sent in its headers and of credentials in URLs.
 */
export function loggableFailure(thrown: unknown, headers: IncomingHttpHeaders): Error {
  const error = asError(thrown);
  const secrets = Object.values(headers)
    .flatMap((value) => String(value).split(/[\s,;=]+/))
    .filter((part) => part.length >= MIN_SECRET_LENGTH);
  const masked = (text: string): string =>
    secrets
      .reduce((rest, secret) => rest.replaceAll(secret, '***'), text)
      .replace(/\/\/[^\s/@]*@/g, '//***@');
  const code: unknown = Reflect.get(error, 'code');
  const failure = new Error(masked(error.message).replace(/\s+/g, ' ').slice(0, MAX_MESSAGE_LENGTH));
  failure.name = error.name;
  failure.stack = masked(error.stack ?? String(error));
  return Object.assign(failure, typeof code === 'string' && { code });
}
