import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';

import type { ClientResponse, Exchange, RequestBody } from '../http/exchange.ts';

/** The Web door: what Next.js, Hono, SvelteKit, Astro, Nitro and others call a handler. Needs no `this`. */
export type WebHandler = (request: Request) => Promise<Response>;

/**
 * Turns a Web request into an exchange, and what is written to that into a Web response.
 *
 * Resolves as soon as the head is known. A client that leaves before gets status 499, for the host's log.
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
        // Taken only when somebody wants it: one that nobody reads stays the host's, to discard as it likes.
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
  // It may be destroyed while it isn't read: an error without a listener would end the process.
  stream.on('error', () => {});
  return { kind: 'stream', stream };
}

/** What h3, Nitro and others on srvx keep beside a request: the Node response that their answer is written to. */
interface NodeRuntime {
  readonly runtime?: { readonly node?: { readonly res?: unknown } | undefined } | undefined;
}

/** The host's own response, where the request brings one; HTTP/2's knows only by its stream that it is destroyed. */
function hostResponseOf(request: Request & NodeRuntime): HostResponse | undefined {
  const response = request.runtime?.node?.res;
  return response instanceof EventEmitter ? response : undefined;
}

type HostResponse = EventEmitter & {
  readonly destroyed?: boolean;
  readonly stream?: { readonly destroyed?: boolean };
};

/** What to do where the body is read before the router gets it. */
const REMEDY = 'Give the router the request before anything reads its body, or read a clone() of it.';
/** How much waits for a slow reader before the provider is stopped, in bytes. */
const HIGH_WATER_MARK = 65_536;
/** What nginx logs for a client that closed its connection before it was answered. */
const CLIENT_CLOSED_REQUEST = 499;
/** Statuses whose responses can't be given a body, not even an empty one. */
const WITHOUT_BODY: readonly number[] = [204, 205, 304];

/** Node's response as far as we use it, over the stream of a Web response. */
class WebResponse extends EventEmitter<{ close: []; drain: [] }> implements ClientResponse {
  // Not its signal alone: that one is aborted through the request, and never again once that was collected.
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

  /** Tells of the request's body, which is read no further once its client has left. */
  setRequestBody(body: Readable): void {
    this.#requestBody = body;
    if (this.#destroyed) body.destroy();
  }

  writeHead(status: number, headers: Readonly<Record<string, string>>): void {
    // Providers may invent a status, but a Web response can't carry each.
    this.#head = { status: status > 599 ? 502 : status, headers: new Headers(headers) };
  }

  flushHeaders(): void {
    if (this.#hasResponded) return;
    this.#respondWithStream();
    // Next.js and srvx (h3, Nitro) keep a head until something is written: nothing will do.
    this.#stream?.enqueue(new Uint8Array(0));
  }

  #respondWithStream(): void {
    if (!this.#mayHaveBody) {
      this.#respond(null);
      return;
    }
    // Not a stream of type 'bytes': that takes the memory of what is enqueued away from us.
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
    // A copy: several chunks may share memory, and whoever reads them may transfer it.
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

  /** Breaks the body off: whoever reads it gets an error, never an end. */
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
    const gone = { status: CLIENT_CLOSED_REQUEST, headers: { 'x-request-id': this.#id } };
    this.#hasResponded = true;
    this.#answer(new Response(body, this.#head ?? gone));
  }

  /**
   * Some hosts (srvx 0.8 under Nitro 3.0.0, adapters that listen for `close` of Node's request) fire the signal as
   * soon as the body was read. So the host's response is asked, where there is one. Where there is none, a body that
   * ends well just then tells it: who leaves while it is read never ends it.
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
    // A host that hears of it as well cancels the body now. Only one that doesn't needs an error: hosts log those.
    setImmediate(() => this.#stream?.error(this.#request.signal.reason));
  };

  /** Like Node's, `close` comes a little later: what destroyed this has still to say why. */
  #close(): void {
    if (this.#destroyed || this.#ended) return;
    this.#destroyed = true;
    this.#request.signal.removeEventListener('abort', this.#onAbort);
    queueMicrotask(() => this.emit('close'));
  }
}
