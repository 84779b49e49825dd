import { idempotencyKeyOf } from '../keys/idempotency-key.ts';
import { InvalidRequestError, UnsupportedMediaTypeError } from '../errors/request-errors.ts';
import type { Exchange } from '../http/exchange.ts';
import { readBytes } from '../http/read-body.ts';
import { repeatedMember } from '../json/repeated-member.ts';
import { type PreparedCall, type Endpoint, nothing, type RawInput } from './endpoint.ts';
import type { Actor } from './host-view.ts';
import { CrossSiteRequestError } from './errors.ts';

/** Far more than any operation needs. */
const LIMITS = { maxBodyBytes: 65_536, bodyTimeoutMs: 10_000 };

/**
 * Reads and validates a request for its endpoint.
 *
 * @throws {RouterError} naming what is invalid
 */
export async function parseRequest<Services, Caller extends Actor>(
  exchange: Exchange,
  endpoint: Endpoint<Services, Caller>,
  params: RawInput['params'],
): Promise<PreparedCall<Services, Caller>> {
  const query = parseQuery(exchange.url);
  const { origin } = exchange.headers;
  if (!endpoint.change)
    return endpoint.prepare({ params, query, body: {}, idempotencyKey: undefined, origin });
  checkOrigin(exchange);
  const idempotencyKey = idempotencyKeyOf(exchange.headers);
  const isOptional = endpoint.bodyIsOptional || endpoint.body === nothing;
  const body = (await readBody(exchange)) ?? (isOptional ? {} : undefined);
  if (body === undefined) {
    throw new InvalidRequestError('invalid_json', 'The request has no body; send a JSON object.');
  }
  return endpoint.prepare({ params, query, body, idempotencyKey, origin });
}

/**
 * Prevents CSRF: rejects requests from pages of other sites, and bodies without a JSON content type, which such a page
 * can't send without a CORS preflight.
 */
function checkOrigin({ method, headers }: Exchange): void {
  const { 'sec-fetch-site': site, origin } = headers;
  if (site !== undefined) {
    if (site !== 'same-origin' && site !== 'none') throw new CrossSiteRequestError(site.slice(0, 40));
  } else if (origin !== undefined) {
    // Over plain HTTP browsers send no `Sec-Fetch-Site`. A sandboxed page has the origin `null`, which has no host.
    const host = URL.parse(origin)?.host;
    const own = headers.host ?? headers[':authority'];
    if (host === undefined || host !== own) throw new CrossSiteRequestError(origin.slice(0, 100));
  }
  const type = headers['content-type'];
  // A cross-site DELETE always needs a CORS preflight.
  if (type === undefined && method === 'DELETE') return;
  if (type !== undefined && /^application\/(?:[\w.-]+\+)?json *(?:; *charset="?utf-?8"? *)?$/i.test(type))
    return;
  throw new UnsupportedMediaTypeError(
    'unsupported_content_type',
    `The content-type must be application/json, in UTF-8; this request has ${type === undefined ? 'none' : JSON.stringify(type.slice(0, 60))}.`,
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

/** Undefined if there is no body. */
async function readBody(exchange: Exchange): Promise<unknown> {
  // Destructured once: the fetch handler's body can be taken only once.
  const { headers, body } = exchange;
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = headers;
  // A body parser before the router may have consumed an empty body.
  if (body.kind === 'lost' && length === '0' && encoding === undefined) return undefined;
  const bytes = await readBytes({ headers, body }, LIMITS);
  if (bytes.length === 0) return undefined;
  // A name that is too long to be compared is none of a known member: the endpoint rejects it.
  const repeated = repeatedMember(bytes);
  if (repeated === 'invalid') {
    throw new InvalidRequestError('invalid_json', 'The request body is not valid JSON in UTF-8.');
  }
  if (repeated === undefined) return JSON.parse(bytes.toString());
  const shown = repeated.name.slice(0, 100);
  throw new InvalidRequestError('ambiguous_parameter', `${JSON.stringify(shown)} is given twice.`, shown);
}
