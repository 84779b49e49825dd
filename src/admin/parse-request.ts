import { idempotencyKeyOf } from '../keys/idempotency-key.ts';
import { InvalidRequestError, UnsupportedMediaTypeError } from '../errors/errors.ts';
import type { Exchange } from '../http/exchange.ts';
import { readBytes } from '../http/read-body.ts';
import { JsonScanner } from '../json/scanner.ts';
import { textOf } from '../json/token.ts';
import { type PreparedCall, type Endpoint, nothing, type RawInput } from './endpoint.ts';
import { CrossSiteRequestError } from './errors.ts';

/** Far more than any change needs. */
const LIMITS = { maxBodyBytes: 65_536, bodyTimeoutMs: 10_000 };

/**
 * A request as its endpoint can carry it out.
 *
 * @throws a RouterError that says what keeps it from that
 */
export async function parseRequest(
  exchange: Exchange,
  endpoint: Endpoint,
  params: RawInput['params'],
): Promise<PreparedCall> {
  const query = parseQuery(exchange.url);
  if (!endpoint.change) return endpoint.prepare({ params, query, body: {}, idempotencyKey: undefined });
  checkOrigin(exchange);
  const idempotencyKey = idempotencyKeyOf(exchange.headers);
  const isOptional = endpoint.bodyIsOptional || endpoint.body === nothing;
  const body = (await readBody(exchange)) ?? (isOptional ? {} : undefined);
  if (body === undefined) {
    throw new InvalidRequestError('invalid_json', 'The request has no body; it must be a JSON object.');
  }
  return endpoint.prepare({ params, query, body, idempotencyKey });
}

/**
 * Keeps out what a page of another site can make an operator's browser send: forms, and anything without JSON's
 * content type, which such a page may not send without asking first.
 */
function checkOrigin({ method, headers }: Exchange): void {
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin' && site !== 'none') {
    throw new CrossSiteRequestError(site.slice(0, 40));
  }
  const type = headers['content-type'];
  // No page may send this method without asking.
  if (type === undefined && method === 'DELETE') return;
  if (type !== undefined && /^application\/(?:[\w.-]+\+)?json *(?:; *charset="?utf-?8"? *)?$/i.test(type))
    return;
  throw new UnsupportedMediaTypeError(
    'unsupported_content_type',
    `Changes are taken as application/json, in UTF-8, and this one is ${type === undefined ? 'of no content-type' : JSON.stringify(type.slice(0, 60))}.`,
  );
}

function parseQuery(url: string): Record<string, string> {
  const start = url.indexOf('?');
  const query: Record<string, string> = {};
  if (start === -1) return query;
  for (const [name, value] of new URLSearchParams(url.slice(start).replace(/#.*$/, ''))) {
    if (Object.hasOwn(query, name)) {
      const shown = name.slice(0, 100);
      throw new InvalidRequestError('ambiguous_parameter', `${JSON.stringify(shown)} is given twice.`, shown);
    }
    query[name] = value;
  }
  return query;
}

/** Undefined where there is none. */
async function readBody(exchange: Exchange): Promise<unknown> {
  // Taken once: the Web door's can't be had again.
  const { headers, body } = exchange;
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = headers;
  // A parser before us may have looked for a body where none was, and kept nothing.
  if (body.kind === 'lost' && length === '0' && encoding === undefined) return undefined;
  const bytes = await readBytes({ headers, body }, LIMITS);
  if (bytes.length === 0) return undefined;
  let repeated: string | undefined;
  let parsed: unknown;
  try {
    repeated = repeatedMember(bytes);
    parsed = JSON.parse(bytes.toString());
  } catch {
    throw new InvalidRequestError('invalid_json', 'The request body is not JSON in UTF-8.');
  }
  if (repeated === undefined) return parsed;
  const shown = repeated.slice(0, 100);
  throw new InvalidRequestError('ambiguous_parameter', `${JSON.stringify(shown)} is given twice.`, shown);
}

/**
 * A name that stands twice in one object: parsers differ on which of the two counts.
 *
 * @throws {JsonError} if it isn't JSON in UTF-8
 */
function repeatedMember(bytes: Uint8Array): string | undefined {
  const seen = new Set<string>();
  let containers = 0;
  let repeated: string | undefined;
  const scanner = new JsonScanner('', {
    key: (within, token) => {
      const name = textOf(token);
      // Longer than any that an endpoint knows, which refuses it.
      if (name === undefined) return;
      const place = `${within} ${name}`;
      if (seen.has(place)) repeated ??= name;
      seen.add(place);
    },
    value: () => String((containers += 1)),
    close: () => {},
  });
  scanner.write(bytes);
  scanner.end();
  return repeated;
}
