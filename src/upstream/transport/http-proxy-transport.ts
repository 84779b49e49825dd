import { ClientRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

// Imported in this order: see `lendRequire`.
import { takeBackRequire } from './lent-require.ts';
import { createProxyMiddleware, type Plugin } from 'http-proxy-middleware';

import { Batch } from '../../async/batch.ts';
import type { Connection } from '../../catalog/connection.ts';
import { asError } from '../../platform/as-error.ts';
import { type AnswerBody, bodyOfStream } from '../../http/answer-body.ts';
import { type BodyChunks, NO_CHUNKS } from '../../http/body-chunks.ts';
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

/** Sends requests through the proxy server of http-proxy-middleware.
 *
 * It never sees a client: each request gets a private pair of request and response.
 * So nothing of a client's request can leak past the headers built for the provider, a failed attempt
 * touches no client's response, and an abort is one `close` of the private response.
 */
export class HttpProxyTransport implements Transport {
  readonly #agents: Agents;

  constructor(agents: Agents) {
    this.#agents = agents;
  }

  send(request: UpstreamRequest, listener: SendListener): Sending {
    const agent = this.#agents.for(request.connection);
    const attempt = new ProxiedRequest(request, agent, listener);
    unsent.add(attempt);
    return attempt;
  }

  keepWarm(connections: readonly Connection[]): void {
    this.#agents.keepWarm(connections);
  }

  closeUnused(connection: Connection): void {
    this.#agents.closeUnused(connection);
  }

  close(): void {
    this.#agents.close();
  }
}

/** One request to a provider, seen from the proxy server's events. */
class ProxiedRequest implements Sending {
  readonly wasRefused = false;
  readonly #listener: SendListener;
  readonly #agent: ProviderAgent;
  readonly #path: string;
  /** What the proxy server knows of it. Released with the answer. */
  #request: PrivateRequest | undefined;
  /** Once it has a socket. */
  #outgoing: ClientRequest | undefined;
  #reused: Socket | undefined;
  /** What the reused connection had received before this request. */
  #bytesBefore = 0;
  #interim = 0;
  #aborted: Error | undefined;
  #body: AnswerBody | undefined;
  #isFailed = false;

  constructor({ headers, body, path }: UpstreamRequest, agent: ProviderAgent, listener: SendListener) {
    this.#listener = listener;
    this.#agent = agent;
    this.#path = path;
    this.#request = new PrivateRequest(headers, body, this);
  }

  send(): void {
    if (this.#isFailed || !this.#request) return;
    try {
      proxy(this.#request, this.#agent, this.#path);
    } catch (error) {
      this.fail(asError(error));
    }
  }

  get diedUnanswered(): boolean {
    return this.#reused !== undefined && this.#reused.bytesRead === this.#bytesBefore;
  }

  get isWritten(): boolean {
    const outgoing = this.#outgoing;
    return outgoing?.writableFinished === true && outgoing.write === write && outgoing.end === end;
  }

  abort(reason: Error): void {
    if (this.#outgoing) this.#aborted ??= reason;
    else this.#withdraw(reason);
    this.fail(this.#aborted ?? reason);
  }

  fail(error: Error): void {
    if (this.#body) {
      // Before the request, whose end would close the answer without a reason.
      this.#body.destroy(error);
      this.#outgoing?.destroy();
      return;
    }
    this.#request?.response.close();
    if (this.#isFailed) return;
    this.#isFailed = true;
    const reason = this.#aborted ?? error;
    // Not before `send` has returned: the proxy server may fail while it is called.
    queueMicrotask(() => {
      this.#listener.onFailed(reason);
    });
  }

  /** Ends a request that has no socket yet. It may wait for one: the agent's queue is Node's requests, which are not known before they have one. */
  #withdraw(reason: Error): void {
    const { waiting } = this.#agent;
    this.#request?.response.close();
    this.#aborted ??= this.#agent.waiting < waiting ? this.#agent.waitEnded(reason) : reason;
  }

  /** The request got a socket: an earlier abort takes effect now. */
  onSocket(outgoing: ClientRequest): void {
    this.#outgoing = outgoing;
    if (this.#aborted) {
      outgoing.destroy(this.#aborted);
      return;
    }
    const { socket } = outgoing;
    if (socket && outgoing.reusedSocket) {
      this.#reused = socket;
      this.#bytesBefore = socket.bytesRead;
    }
    outgoing.on('upgrade', (_message, upgraded) => {
      upgraded.destroy();
      this.fail(switchedProtocols());
    });
    outgoing.on('information', () => {
      this.#interim += 1;
      if (this.#interim > MAX_INTERIM_ANSWERS) this.fail(tooManyInterim());
    });
    const listener = this.#listener;
    if (!socket?.connecting) listener.onConnected();
    else {
      socket.once(this.#agent.protocol === 'https:' ? 'secureConnect' : 'connect', () => {
        listener.onConnected();
      });
    }
  }

  onAnswer(message: IncomingMessage): void {
    if (this.#isFailed) {
      message.destroy(this.#aborted);
      return;
    }
    if (this.#outgoing) this.#leaveProxy(this.#outgoing, message);
    const body = bodyOfStream(message, this.#listener);
    this.#body = body;
    this.#listener.onHead({ statusCode: message.statusCode ?? 0, headers: message.headers, body });
  }

  /** Takes the request from the proxy server, whose listeners would keep all that it knows for as long as the answer lasts. */
  #leaveProxy(outgoing: ClientRequest, message: IncomingMessage): void {
    for (const event of BEFORE_ANSWER) outgoing.removeAllListeners(event);
    outgoing.on('error', (error) => {
      this.fail(error);
    });
    this.#request?.leave(outgoing);
    this.#request = undefined;
    if (!outgoing.writableFinished) this.#awaitFinish(outgoing, message);
  }

  /**
   * Closes the connection if the request is not sent whole when its answer is over, as the proxy server does, but a turn
   * of the event loop later: over TLS, Node reports that a write has ended after what was received meanwhile.
   */
  #awaitFinish(outgoing: ClientRequest, message: IncomingMessage): void {
    message.removeAllListeners('close').once('close', () => {
      setImmediate(() => {
        if (!outgoing.writableFinished) outgoing.destroy();
      });
    });
  }
}

/** As they were when the router was loaded: tools that replace them may keep what is written. */
// oxlint-disable-next-line typescript/unbound-method -- they are compared only
const { write, end } = ClientRequest.prototype;

/** Events that don't come after the head of an answer. */
const BEFORE_ANSWER: readonly string[] = ['socket', 'information', 'upgrade', 'response'];

/** Requests that were made in this turn of the event loop. */
const unsent = new Batch<ProxiedRequest>((attempt) => {
  attempt.send();
});

/** A socket as httpxy looks at it: one that isn't writable would make it take a reset for the client's, and report nothing. */
const WRITABLE = { writable: true };

type OnError = (error: Error) => void;

/** The request as the proxy server sees it: our headers, and a complete body. */
class PrivateRequest {
  readonly method = 'POST';
  readonly httpVersionMajor = 1;
  readonly socket = WRITABLE;
  /** Empty, because the path is in the target. */
  readonly url = '';
  readonly headers: Readonly<Record<string, string>>;
  readonly response = new PrivateResponse();
  readonly attempt: ProxiedRequest;
  /** Released once written: its answer may take long to begin. */
  #body: BodyChunks;
  /** The proxy server's listener for errors of this and of the request that it sends. */
  #onError: OnError | undefined;

  constructor(headers: Readonly<Record<string, string>>, body: BodyChunks, attempt: ProxiedRequest) {
    this.headers = headers;
    this.attempt = attempt;
    this.#body = body;
  }

  pipe(outgoing: Duplex): Duplex {
    const body = this.#body;
    this.#body = NO_CHUNKS;
    // Written in one turn of the event loop, so that it leaves together with the head.
    for (let i = 0; i < body.length - 1; i++) outgoing.write(body[i]);
    outgoing.end(body.at(-1));
    return outgoing;
  }

  /** This object emits nothing. */
  on(event: string, listener: OnError): this {
    if (event === 'error') this.#onError = listener;
    return this;
  }

  /** The proxy server has nothing more to do with it. */
  leave(outgoing: ClientRequest): void {
    this.response.finished = true;
    if (this.#onError) outgoing.off('error', this.#onError);
  }
}

/** The response as the proxy server uses it when it doesn't write it: it listens for `close`, to end the request. */
class PrivateResponse {
  readonly headersSent = false;
  readonly writableFinished = false;
  /** Set once the answer's head is here: the proxy server then leaves the answer alone. */
  finished = false;
  #onClose: (() => void) | undefined;

  on(event: string, listener: () => void): this {
    if (event === 'close') this.#onClose = listener;
    return this;
  }

  close(): void {
    this.#onClose?.();
    this.#onClose = undefined;
  }
}

type ProxyServer = Parameters<Plugin>[0];

/** The proxy server of the only middleware of the process, called directly: the middleware itself finds the target of a client's
 * request, which is known here, and takes several turns of promises for it.
 *
 * It doesn't handle the answer, and reports by events: without listeners for both `error` and `econnreset`, a reset
 * would never be reported.
 */
const server = createProxyServer();

function createProxyServer(): ProxyServer {
  const servers: ProxyServer[] = [];
  createProxyMiddleware({
    router: {},
    ejectPlugins: true,
    plugins: [
      (made): void => {
        servers.push(made);
      },
    ],
  });
  const [made] = servers;
  if (!made) throw new TypeError('http-proxy-middleware has called no plugin');
  return made
    .on('proxyReq', (outgoing, request) => {
      attemptOf(request).onSocket(outgoing);
    })
    .on('proxyRes', (message, request) => {
      attemptOf(request).onAnswer(message);
    })
    .on('error', (error, request) => {
      attemptOf(request).fail(error);
    })
    .on('econnreset', (error, request) => {
      attemptOf(request).fail(error);
    });
}

/** The only cast: the private objects have just those members of Node's that the proxy server uses. */
function proxy(request: PrivateRequest, agent: ProviderAgent, pathname: string): void {
  const { protocol, host, port } = agent;
  // Nothing waits for its promise, which doesn't reject where `error` has a listener.
  void server.web(
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    request as unknown as IncomingMessage,
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    request.response as unknown as ServerResponse,
    { target: { protocol, host, port, pathname }, agent, selfHandleResponse: true },
  );
}

/** The proxy server passes the private request to its listeners. */
function attemptOf(request: unknown): ProxiedRequest {
  if (request instanceof PrivateRequest) return request.attempt;
  throw new TypeError('The proxy server reported an unknown request');
}
