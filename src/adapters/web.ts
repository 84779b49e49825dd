import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';

import type { ClientResponse, Exchange, RequestBody, ResponseHeaders } from '../http/exchange.ts';

/** The fetch handler, for Next.js, Hono, SvelteKit, Astro, Nitro and others. Needs no `this`. */
export type WebHandler = (request: Request) => Promise<Response>;

/** Makes an exchange of a Web request, and a Web response of what is written to it.
 *
 * Resolves as soon as the response head is known. If the client leaves before, the status is 499, for the app's log.
 */
export function createWebHandler(
  handle: (exchange: Exchange, request: object) => Promise<void>,
  newId: () => string,
): WebHandler {
  return (request) =>
    new Promise((resolve, reject) => {
      const id = newId();
      const response = new WebResponse(request, id, resolve);
      const exchange: Exchange = {
        id,
        method: request.method,
        url: request.url,
        headers: Object.fromEntries(request.headers),
        // Read only on demand: an unread body is left to the framework.
        get body() {
          const body = bodyOf(request);
          if (body.kind === 'stream') response.setRequestBody(body.stream);
          return body;
        },
        response,
      };
      handle(exchange, request).catch(reject);
    });
}

function bodyOf(request: Request): RequestBody {
  const { body } = request;
  if (request.bodyUsed || body?.locked) return { kind: 'lost', remedy: REMEDY };
  if (!body) return { kind: 'bytes', bytes: Buffer.alloc(0), exact: true };
  const stream = Readable.fromWeb(body);
  // It may be destroyed while unread: an error without a listener would end the process.
  stream.on('error', () => {});
  return { kind: 'stream', stream };
}

/** h3, Nitro and others on srvx attach the Node response to the request. */
interface NodeRuntime {
  readonly runtime?: { readonly node?: { readonly res?: unknown } | undefined } | undefined;
}

/** The server's own response, if the request has one; for HTTP/2, only its stream has `destroyed`. */
function hostResponseOf(request: Request & NodeRuntime): HostResponse | undefined {
  const response = request.runtime?.node?.res;
  return response instanceof EventEmitter ? response : undefined;
}

type HostResponse = EventEmitter & {
  readonly destroyed?: boolean;
  readonly stream?: { readonly destroyed?: boolean };
};

/** Hint if the body was read before the router got the request. */
const REMEDY = 'Pass the request to the router before its body is read, or read a clone() of it.';
/** Bytes buffered for a slow reader before reading from the provider stops. */
const HIGH_WATER_MARK = 65_536;
/** nginx's status for a client that closed its connection before the response. */
const CLIENT_CLOSED_REQUEST = 499;
/** Statuses for which `Response` rejects any body, even an empty one. */
const WITHOUT_BODY: readonly number[] = [204, 205, 304];

/** The part of Node's response that we use, on top of a Web response's stream. */
class WebResponse extends EventEmitter<{ close: []; drain: [] }> implements ClientResponse {
  // Keeps the request, not only its signal: once the request is garbage-collected, its signal is never aborted.
  readonly #request: Request;
  readonly #id: string;
  readonly #answer: (response: Response) => void;
  #requestBody: Readable | undefined;
  #head: { readonly status: number; readonly headers: Headers } | undefined;
  #stream: ReadableStreamDefaultController<Uint8Array> | undefined;
  #hasResponded = false;
  #ended = false;
  #destroyed = false;
  #isFull = false;

  constructor(request: Request, id: string, answer: (response: Response) => void) {
    super();
    this.#request = request;
    this.#id = id;
    this.#answer = answer;
    if (request.signal.aborted) this.#onAbort();
    else request.signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  get headersSent(): boolean {
    return this.#head !== undefined;
  }

  get statusCode(): number {
    return this.#head?.status ?? CLIENT_CLOSED_REQUEST;
  }

  get writableEnded(): boolean {
    return this.#ended;
  }

  get destroyed(): boolean {
    return this.#destroyed;
  }

  /** Sets the request body, which is destroyed when the client leaves. */
  setRequestBody(body: Readable): void {
    this.#requestBody = body;
    if (this.#destroyed) body.destroy();
  }

  writeHead(status: number, headers: ResponseHeaders): void {
    // Providers may send any status, but a Web response has an upper bound.
    this.#head = { status: status > 599 ? 502 : status, headers: webHeaders(headers) };
  }

  flushHeaders(): void {
    if (this.#hasResponded) return;
    this.#respondWithStream();
    // Next.js and srvx (h3, Nitro) hold back the head until something is written; an empty chunk is enough.
    this.#stream?.enqueue(new Uint8Array(0));
  }

  #respondWithStream(): void {
    if (!this.#mayHaveBody) {
      this.#respond(null);
      return;
    }
    // Not a stream of type 'bytes': that detaches the memory of enqueued chunks.
    const body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#stream = controller;
        },
        pull: () => {
          if (!this.#isFull) return;
          this.#isFull = false;
          this.emit('drain');
        },
        cancel: () => {
          this.#close();
        },
      },
      new ByteLengthQueuingStrategy({ highWaterMark: HIGH_WATER_MARK }),
    );
    this.#respond(body);
  }

  write(chunk: Uint8Array): boolean {
    if (this.#destroyed || this.#ended) return false;
    if (!this.#hasResponded) this.#respondWithStream();
    const stream = this.#stream;
    if (!stream) return true;
    // A copy: chunks may share memory, and a reader may transfer it.
    stream.enqueue(new Uint8Array(chunk));
    this.#isFull = (stream.desiredSize ?? 0) <= 0;
    return !this.#isFull;
  }

  end(chunk?: Uint8Array): void {
    if (this.#destroyed || this.#ended) return;
    if (!this.#hasResponded) {
      this.#respond(chunk && this.#mayHaveBody ? new Uint8Array(chunk) : null);
    } else if (chunk) {
      this.write(chunk);
    }
    this.#ended = true;
    this.#stream?.close();
    this.#request.signal.removeEventListener('abort', this.#onAbort);
  }

  /** Breaks the body off: its reader gets an error, never an end. */
  destroy(): void {
    if (this.#destroyed || this.#ended) return;
    if (!this.#hasResponded) this.#respondWithStream();
    this.#stream?.error(new Error('The response was broken off'));
    this.#close();
  }

  get #mayHaveBody(): boolean {
    const { status } = this.#head ?? { status: CLIENT_CLOSED_REQUEST };
    return this.#request.method !== 'HEAD' && !WITHOUT_BODY.includes(status);
  }

  #respond(body: ReadableStream<Uint8Array> | Uint8Array<ArrayBuffer> | null): void {
    const disconnected = { status: CLIENT_CLOSED_REQUEST, headers: { 'x-request-id': this.#id } };
    this.#hasResponded = true;
    this.#answer(new Response(body, this.#head ?? disconnected));
  }

  /** Some servers (srvx 0.8 under Nitro 3.0.0, adapters that listen for `close` of Node's request) abort the signal as
   * soon as the body was read. So the server's own response decides, if there is one. Without one, a body that ends
   * normally just then shows that the client is still there: a client that leaves during the upload never ends it.
   */
  readonly #onAbort = (): void => {
    const hostResponse = hostResponseOf(this.#request);
    const body = this.#requestBody;
    if (hostResponse) {
      if (hostResponse.destroyed ?? hostResponse.stream?.destroyed ?? true) this.#onClientLeft();
      else hostResponse.once('close', this.#onClientLeft);
    } else if (body && !body.readableEnded && !body.destroyed) {
      setImmediate(() => {
        if (!body.readableEnded) this.#onClientLeft();
      });
    } else {
      this.#onClientLeft();
    }
  };

  readonly #onClientLeft = (): void => {
    if (this.#destroyed || this.#ended) return;
    if (!this.#hasResponded) {
      this.#head = undefined;
      this.#respond(null);
    }
    this.#requestBody?.destroy();
    this.#close();
    // A server that notices the abort cancels the body now. Only others need the error, because servers log it.
    setImmediate(() => this.#stream?.error(this.#request.signal.reason));
  };

  /** `close` is emitted later, as in Node, so that the code that destroys the response can set its reason first. */
  #close(): void {
    if (this.#destroyed || this.#ended) return;
    this.#destroyed = true;
    this.#request.signal.removeEventListener('abort', this.#onAbort);
    queueMicrotask(() => this.emit('close'));
  }
}

function webHeaders(given: ResponseHeaders): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(given)) {
    if (typeof value === 'string') headers.set(name, value);
    else for (const line of value) headers.append(name, line);
  }
  return headers;
}
