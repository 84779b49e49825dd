import { EventEmitter } from 'node:events';
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

// Imported in this order: see `lendRequire`.
import { takeBackRequire } from './lent-require.ts';
import { createProxyMiddleware } from 'http-proxy-middleware';

import type { Connection } from '../catalog/connection.ts';
import { asError } from '../platform/as-error.ts';
import { type AnswerBody, bodyOfStream } from '../http/answer-body.ts';
import type { BodyChunks } from '../http/body-chunks.ts';
import {
  MAX_INTERIM_ANSWERS,
  type Sending,
  type SendListener,
  switchedProtocols,
  tooManyInterim,
  type Transport,
  type UpstreamRequest,
} from './transport.ts';
import type { Agents, ProviderAgent } from './agents.ts';

takeBackRequire();

/** Sends requests through http-proxy-middleware.
 *
 * The middleware never sees a client: each request gets a private pair of request and response.
 * So nothing of a client's request can leak past the headers built for the provider, a failed attempt
 * touches no client's response, and an abort is one `close` of the private response.
 */
export class HttpProxyTransport implements Transport {
  readonly #agents: Agents;

  constructor(agents: Agents) {
    this.#agents = agents;
  }

  send(request: UpstreamRequest, listener: SendListener): Sending {
    const attempt = new ProxiedRequest(request, this.#agents.for(request.connection), listener);
    proxy(attempt.request, attempt.response).catch((error: unknown) => {
      attempt.fail(asError(error));
    });
    return attempt;
  }

  keepWarm(connections: Iterable<Connection>): void {
    this.#agents.keepWarm(connections);
  }

  close(): void {
    this.#agents.close();
  }
}

/** One request to a provider, seen from the middleware's events. */
class ProxiedRequest implements Sending {
  readonly request: PrivateRequest;
  readonly response = new PrivateResponse();
  readonly wasRefused = false;
  readonly #listener: SendListener;
  #hasSocket = false;
  #reused: { readonly socket: Socket; readonly bytesRead: number } | undefined;
  #aborted: Error | undefined;
  #body: AnswerBody | undefined;
  #isFailed = false;

  constructor(request: UpstreamRequest, agent: ProviderAgent, listener: SendListener) {
    this.#listener = listener;
    this.request = new PrivateRequest(request, agent, this);
  }

  get diedUnanswered(): boolean {
    return this.#reused !== undefined && this.#reused.socket.bytesRead === this.#reused.bytesRead;
  }

  abort(reason: Error): void {
    this.#aborted ??= this.#hasSocket ? reason : this.request.agent.explainWait(reason);
    this.fail(this.#aborted);
  }

  fail(error: Error): void {
    // Before the middleware ends the request, which would close the answer without a reason.
    this.#body?.destroy(error);
    this.response.close();
    if (this.#body || this.#isFailed) return;
    this.#isFailed = true;
    this.#listener.onFailed(this.#aborted ?? error);
  }

  /** The request got a socket: an earlier abort takes effect now. */
  onSocket(outgoing: ClientRequest, encrypted: boolean): void {
    this.#hasSocket = true;
    if (this.#aborted) {
      outgoing.destroy(this.#aborted);
      return;
    }
    const { socket } = outgoing;
    if (socket && outgoing.reusedSocket) this.#reused = { socket, bytesRead: socket.bytesRead };
    outgoing.once('upgrade', (_message, upgraded) => {
      upgraded.destroy();
      this.fail(switchedProtocols());
    });
    let heads = 0;
    outgoing.on('information', () => {
      heads += 1;
      if (heads > MAX_INTERIM_ANSWERS) this.fail(tooManyInterim());
    });
    const listener = this.#listener;
    if (!socket?.connecting) listener.onConnected();
    else {
      socket.once(encrypted ? 'secureConnect' : 'connect', () => {
        listener.onConnected();
      });
    }
  }

  onAnswer(message: IncomingMessage): void {
    if (this.#isFailed) {
      message.destroy(this.#aborted);
      return;
    }
    const body = bodyOfStream(message);
    this.#body = body;
    // The middleware's promise settles when the private response closes, which happens when the answer does.
    message.once('close', () => {
      this.response.close();
      this.#listener.onOver();
    });
    this.#listener.onHead({ statusCode: message.statusCode ?? 0, headers: message.headers, body });
  }
}

/** The request as the middleware sees it: our headers, and a complete body. */
class PrivateRequest {
  readonly method = 'POST';
  readonly httpVersion = '1.1';
  readonly httpVersionMajor = 1;
  /** Must look writable: otherwise httpxy takes a reset for the client's, and reports nothing. */
  readonly socket = { writable: true };
  /** Empty, because the path is in the target. */
  readonly url = '';
  readonly headers: Readonly<Record<string, string>>;
  readonly origin: URL;
  readonly path: string;
  readonly agent: ProviderAgent;
  readonly attempt: ProxiedRequest;
  /** Released once written, as listeners keep this object for as long as the answer lasts. */
  #body: BodyChunks;

  constructor(
    { headers, connection, path, body }: UpstreamRequest,
    agent: ProviderAgent,
    attempt: ProxiedRequest,
  ) {
    this.headers = headers;
    this.origin = connection.origin;
    this.path = path;
    this.agent = agent;
    this.attempt = attempt;
    this.#body = body;
  }

  pipe(outgoing: Duplex): Duplex {
    const body = this.#body;
    this.#body = [];
    // Written in one turn of the event loop, so that it leaves together with the head.
    for (const chunk of body.slice(0, -1)) outgoing.write(chunk);
    outgoing.end(body.at(-1));
    return outgoing;
  }

  /** Ignores listeners: this object emits nothing. */
  on(): this {
    return this;
  }
}

/** The response as the middleware uses it when it doesn't write it: it listens for `close`, and destroys it. */
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

/** The only middleware of the process.
 *
 * It routes to the attempt's own target and agent, doesn't handle the answer, and
 * reports by events: without listeners for both `error` and `econnreset`, a reset
 * would never settle the attempt.
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

/** Cached, as a URL splits itself on each read. Sockets need an IPv6 address without brackets. */
function originOf(url: URL): Origin {
  let origin = origins.get(url);
  if (!origin) {
    const { protocol, hostname, port } = url;
    origin = { protocol, hostname: hostname.replace(/^\[|\]$/g, ''), port };
    origins.set(url, origin);
  }
  return origin;
}

/** The only cast: the private objects have just those members of Node's that the middleware uses. */
function proxy(request: PrivateRequest, response: PrivateResponse): Promise<void> {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return middleware(request as unknown as IncomingMessage, response as unknown as ServerResponse);
}

/** The middleware passes the private request to its listeners. */
function asPrivate(request: unknown): PrivateRequest {
  if (request instanceof PrivateRequest) return request;
  throw new TypeError('The middleware reported an unknown request');
}
