import type { Exchange } from './exchange.ts';
import { drained, varyBy } from './respond.ts';
import { pathOf } from './url.ts';

/** Request headers that a handler doesn't get: keys are the router's and its proxy's, and the others belong to the connection. */
const REMOVED_FROM_REQUEST = [
  'authorization',
  'connection',
  'expect',
  'keep-alive',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];
/** Response headers that belong to the connection. */
const REMOVED_FROM_RESPONSE = ['connection', 'keep-alive', 'transfer-encoding'];
/** Of a response that `fetch` has decoded, these describe the bytes as they were. */
const REMOVED_FROM_FETCHED = ['content-encoding', 'content-length'];
const WITHOUT_BODY: readonly string[] = ['GET', 'HEAD'];

/** An exchange's request, with a copy of its body, as a Web request; without its API key. */
export function webRequest(exchange: Exchange, body: Buffer, signal: AbortSignal): Request {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only by its type may a Buffer be shared memory
  return requestWith(exchange, body as Uint8Array<ArrayBuffer>, signal);
}

/** As `webRequest`, but its body is copied only as it is read. */
export function lazyRequest(exchange: Exchange, body: Buffer, signal: AbortSignal): Request {
  let at = 0;
  const pieces = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        const piece = new Uint8Array(body.subarray(at, at + PIECE_BYTES));
        at += piece.length;
        if (piece.length > 0) controller.enqueue(piece);
        else controller.close();
      },
    },
    { highWaterMark: 0 },
  );
  return requestWith(exchange, pieces, signal);
}

const PIECE_BYTES = 65_536;

function requestWith(
  { method, url, headers }: Exchange,
  body: ReadableStream | Uint8Array<ArrayBuffer>,
  signal: AbortSignal,
): Request {
  const given = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || REMOVED_FROM_REQUEST.includes(name) || name.startsWith(':')) continue;
    for (const one of Array.isArray(value) ? value : [value]) given.append(name, one);
  }
  const hasBody = !WITHOUT_BODY.includes(method);
  return new Request(absoluteUrl(url, String(headers.host ?? headers[':authority'] ?? '')), {
    method,
    headers: given,
    signal,
    ...(hasBody && { body, duplex: 'half' }),
  });
}

/** Node's requests have a path only, and a client may send any `Host`: of it, only a host and a port are taken. */
function absoluteUrl(target: string, host: string): string {
  const origin = URL.parse(`http://${host}`)?.origin ?? LOCALHOST;
  const url =
    URL.parse(target.startsWith('/') ? origin + target : target, origin) ?? localUrl(pathOf(target));
  // A Request takes no URL with a password.
  url.username = '';
  url.password = '';
  return url.href;
}

function localUrl(path: string): URL {
  const url = new URL(LOCALHOST);
  url.pathname = path;
  return url;
}

const LOCALHOST = 'http://localhost';

/** Also of the `fetch` of a package, whose class is another one: undici, or a library that replaces the global one. */
export function isResponse(value: unknown): value is Response {
  return Object.prototype.toString.call(value) === '[object Response]';
}

/**
 * Sends a Web response, as fast as the client reads it. Resolves when it was sent whole, or the client has left.
 *
 * @throws what the response's body fails with: the client's connection is then reset
 */
export async function sendWebResponse(
  exchange: Exchange,
  answer: Response,
  clientLeft: AbortSignal,
): Promise<void> {
  if (clientLeft.aborted) {
    cancel(answer.body);
    return;
  }
  const { id, response, method, corsHeaders, rateLimitHeaders, waitHeaders } = exchange;
  const headers = new Headers(answer.headers);
  const removed =
    answer.url === '' ? REMOVED_FROM_RESPONSE : [...REMOVED_FROM_RESPONSE, ...REMOVED_FROM_FETCHED];
  for (const name of removed) headers.delete(name);
  const cookies = headers.getSetCookie();
  const vary = headers.get('vary');
  response.writeHead(answer.status, {
    ...Object.fromEntries(headers),
    ...(cookies.length > 0 && { 'set-cookie': cookies }),
    'x-request-id': id,
    ...corsHeaders,
    ...(vary !== null && { vary: varyBy(exchange, vary) }),
    ...rateLimitHeaders,
    ...waitHeaders,
  });
  if (method === 'HEAD' || !answer.body) {
    cancel(answer.body);
    response.end();
    return;
  }
  const reader = answer.body.getReader();
  const leave = (): void => {
    cancel(reader);
  };
  clientLeft.addEventListener('abort', leave);
  try {
    for (;;) {
      // A reader that was cancelled is done.
      const { done, value } = await reader.read();
      if (clientLeft.aborted) return;
      if (done) break;
      if (!response.write(value)) await drained(response);
    }
    response.end();
  } catch (error) {
    response.destroy();
    throw error;
  } finally {
    clientLeft.removeEventListener('abort', leave);
    // Also if writing has failed; of a body that is over it changes nothing.
    cancel(reader);
  }
}

/** The body is not read further: its source may stop. That is not waited for, and it may fail. */
function cancel(body: Pick<ReadableStream, 'cancel'> | null): void {
  void body?.cancel().catch(() => {});
}
