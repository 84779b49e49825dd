import type { IncomingHttpHeaders } from 'node:http';

import { asError } from '../platform/as-error.ts';

/** Shorter parts are ordinary words. */
const MIN_SECRET_LENGTH = 8;
const MAX_MESSAGE_LENGTH = 300;

/**
 * An error that your app's `authenticate` threw, made safe to log: on one line, with asterisks in place of the client's
 * header values and of credentials in URLs.
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
