import { EventEmitter } from 'node:events';
import type { Agent, ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

// Imported in this order: see `lendRequire`.
import { takeBackRequire } from './lent-require.ts';
import { createProxyMiddleware } from 'http-proxy-middleware';

import { UpstreamError } from '../errors/upstream-errors.ts';
import { asError } from '../platform/as-error.ts';
import type { BodyChunks } from '../http/body-chunks.ts';

takeBackRequire();

/** Everything of a request that goes to a provider, exactly as it goes. */
export interface UpstreamRequest {
  /** Scheme, host and port. */
  readonly origin: URL;
  /** Path and query. */
  readonly path: string;
  /** Complete, `host` and `content-length` included; names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: BodyChunks;
  /** The provider's key, which stands in the headers: nothing of the answer may show it. */
  readonly apiKey: string | undefined;
  readonly agent: Agent;
}

/** A request on its way. */
export interface Sending {
  /** The provider's answer; rejects with the socket's error, or with what `abort` was given. */
  readonly answer: Promise<IncomingMessage>;
  /** Closes the connection at any time; an answer that already arrived is destroyed with `reason`. */
  abort(reason: Error): void;
  /** It went out on a kept connection, on which not a byte has come back since. */
  readonly diedUnanswered: boolean;
}

/**
 * Sends a POST through http-proxy-middleware.
 *
 * The middleware never sees a client: each call gets a private pair of request
 * and response. So nothing of a client's request can leak past the headers
 * built for it, a failed attempt touches nobody's response, and an abort is one
 * `close` of the private response.
 *
 * @param onConnect - called once the connection stands, reused or new
 */
export function proxyRequest(request: UpstreamRequest, onConnect: () => void): Sending {
  const attempt = new ProxiedRequest(request, onConnect);
  proxy(attempt.request, attempt.response).catch((error: unknown) => {
    attempt.fail(asError(error));
  });
  return attempt;
}

/** One request to a provider, seen from the middleware's events. */
class ProxiedRequest implements Sending {
  readonly answer: Promise<IncomingMessage>;
  readonly request: PrivateRequest;
  readonly response: PrivateResponse;
  #reused: { readonly socket: Socket; readonly bytesRead: number } | undefined;
  #resolve!: (answer: IncomingMessage) => void;
  #reject!: (error: Error) => void;
  #onConnect: () => void;
  #aborted: Error | undefined;
  #message: IncomingMessage | undefined;

  constructor(request: UpstreamRequest, onConnect: () => void) {
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#onConnect = onConnect;
    this.request = new PrivateRequest(request, this);
    this.response = new PrivateResponse();
  }

  get diedUnanswered(): boolean {
    return this.#reused !== undefined && this.#reused.socket.bytesRead === this.#reused.bytesRead;
  }

  abort(reason: Error): void {
    this.#aborted ??= reason;
    this.#message?.destroy(reason);
    this.response.close();
    this.#reject(reason);
  }

  fail(error: Error): void {
    // Before the middleware ends the request: then its answer would close without a reason.
    this.#message?.destroy(error);
    this.response.close();
    this.#reject(this.#aborted ?? error);
  }

  /** The request got a socket: the first moment at which an abort that came too early can take effect. */
  onSocket(outgoing: ClientRequest, encrypted: boolean): void {
    if (this.#aborted) {
      outgoing.destroy(this.#aborted);
      return;
    }
    const { socket } = outgoing;
    if (socket && outgoing.reusedSocket) this.#reused = { socket, bytesRead: socket.bytesRead };
    outgoing.once('upgrade', (_message, upgraded) => {
      upgraded.destroy();
      this.fail(
        new UpstreamError('upstream_invalid_response', "The model's provider answered with status 101."),
      );
    });
    let heads = 0;
    outgoing.on('information', () => {
      heads += 1;
      if (heads > MAX_INTERIM_ANSWERS) this.fail(tooManyInterim());
    });
    if (socket?.connecting) socket.once(encrypted ? 'secureConnect' : 'connect', this.#onConnect);
    else this.#onConnect();
  }

  onAnswer(message: IncomingMessage): void {
    if (this.#aborted) {
      message.destroy(this.#aborted);
      return;
    }
    this.#message = message;
    // The middleware's promise ends with the private response, and that with the answer.
    message.once('close', () => {
      this.response.close();
    });
    this.#resolve(message);
  }
}

/** Answers such as `103 Early Hints` before the answer: a provider that sends them without end would be read without end. */
const MAX_INTERIM_ANSWERS = 32;

function tooManyInterim(): UpstreamError {
  return new UpstreamError(
    'upstream_invalid_response',
    `The model's provider sent more than ${MAX_INTERIM_ANSWERS} interim answers and no answer.`,
  );
}

/** What the middleware reads of a request: our headers, and a body that is there whole. */
class PrivateRequest {
  readonly method = 'POST';
  readonly httpVersion = '1.1';
  readonly httpVersionMajor = 1;
  /** httpxy takes a reset for the client's own, and tells nobody, unless this looks writable. */
  readonly socket = { writable: true };
  /** The path stands in the target: what is not here is not parsed again. */
  readonly url = '';
  readonly headers: Readonly<Record<string, string>>;
  readonly origin: URL;
  readonly path: string;
  readonly agent: Agent;
  readonly attempt: ProxiedRequest;
  /** Until it is written: listeners keep this object for as long as the answer lasts. */
  #body: BodyChunks;

  constructor({ headers, origin, path, agent, body }: UpstreamRequest, attempt: ProxiedRequest) {
    this.headers = headers;
    this.origin = origin;
    this.path = path;
    this.agent = agent;
    this.attempt = attempt;
    this.#body = body;
  }

  pipe(outgoing: Duplex): Duplex {
    const body = this.#body;
    this.#body = [];
    // All of it is written in this turn, and so leaves in one go with the head.
    for (const piece of body.slice(0, -1)) outgoing.write(piece);
    outgoing.end(body.at(-1));
    return outgoing;
  }

  /** Its own errors are all that one can subscribe to, and it has none. */
  on(): this {
    return this;
  }
}

/** What the middleware does to a response when it doesn't write it: watch `close`, and destroy it. */
class PrivateResponse extends EventEmitter {
  readonly headersSent = false;
  readonly finished = false;
  readonly writableFinished = false;
  destroyed = false;

  close(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.emit('close');
  }

  destroy(): this {
    this.close();
    return this;
  }
}

/**
 * The one middleware of the process.
 *
 * It routes to the attempt's own target and agent, leaves the answer to us, and
 * reports by events: both `error` and `econnreset` must be heard, or a reset
 * would settle nothing.
 */
const middleware = createProxyMiddleware({
  pathFilter: () => true,
  router: (request, _response, options) => {
    const { origin, path, agent } = asPrivate(request);
    options.agent = agent;
    const { protocol, hostname, port } = originOf(origin);
    return { protocol, host: hostname, hostname, port, pathname: path };
  },
  selfHandleResponse: true,
  ejectPlugins: true,
  plugins: [
    (server): void => {
      server.on('proxyReq', (outgoing, request) => {
        const { attempt, origin } = asPrivate(request);
        attempt.onSocket(outgoing, originOf(origin).protocol === 'https:');
      });
      server.on('proxyRes', (message, request) => {
        asPrivate(request).attempt.onAnswer(message);
      });
      server.on('error', (error, request) => {
        asPrivate(request).attempt.fail(error);
      });
      server.on('econnreset', (error, request) => {
        asPrivate(request).attempt.fail(error);
      });
    },
  ],
});

interface Origin {
  readonly protocol: string;
  readonly hostname: string;
  readonly port: string;
}

const origins = new WeakMap<URL, Origin>();

/** What a URL takes apart anew each time that it is asked; an IPv6 address without its brackets, as sockets want it. */
function originOf(url: URL): Origin {
  let origin = origins.get(url);
  if (!origin) {
    const { protocol, hostname, port } = url;
    origin = { protocol, hostname: hostname.replace(/^\[|\]$/g, ''), port };
    origins.set(url, origin);
  }
  return origin;
}

/** The one cast: the pair is what the middleware uses of Node's, and no more. */
function proxy(request: PrivateRequest, response: PrivateResponse): Promise<void> {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return middleware(request as unknown as IncomingMessage, response as unknown as ServerResponse);
}

/** What the middleware hands to its listeners is the request that it was given. */
function asPrivate(request: unknown): PrivateRequest {
  if (request instanceof PrivateRequest) return request;
  throw new TypeError('The middleware reported a request that it was not given');
}
