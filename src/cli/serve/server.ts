import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

import { withTimeout } from '../../async/timeout.ts';
import type { AdminRouter } from '../../admin/admin-router.ts';
import { MisdirectedRequestError } from '../../errors/request-errors.ts';
import type { ChatCompletionsRouter } from '../../router/router.ts';
import type { HostNames } from './host-names.ts';
import type { Log } from './log.ts';

/** How long a result of `/readyz` is cached, to limit the load on the store. */
const READY_CACHE_MS = 1000;
/** Longer than the idle timeout of load balancers, usually 60 s: otherwise one may send a request on a closing connection. */
const KEEP_ALIVE_MS = 65_000;
/** A store that takes longer than this is not ready. */
const READY_TIMEOUT_MS = 5000;
/** How long clients may take to read the rest of answers that have ended. */
const LAST_BYTES_MS = 5000;

/** The readiness check for load balancers: it asks the store alone, as the router has been ready before. */
export class Readiness {
  readonly #router: ChatCompletionsRouter;
  #lastCheck: { readonly at: number; readonly problem: Promise<string | undefined> } | undefined;
  #isClosing = false;

  readonly #log: Log;

  constructor(router: ChatCompletionsRouter, log: Log) {
    this.#router = router;
    this.#log = log;
  }

  /** Why the process isn't ready; undefined if it is. Details are only logged, not sent to unauthenticated clients. */
  async problem(): Promise<string | undefined> {
    if (this.#isClosing) return 'closing';
    const now = performance.now();
    if (!this.#lastCheck || now - this.#lastCheck.at > READY_CACHE_MS)
      this.#lastCheck = { at: now, problem: this.#check() };
    return this.#lastCheck.problem;
  }

  close(): void {
    this.#isClosing = true;
  }

  async #check(): Promise<string | undefined> {
    const ready = this.#router.ready().then(
      () => undefined,
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    );
    const timeoutMessage = (): string => `the store did not answer within ${READY_TIMEOUT_MS} ms`;
    const message = await withTimeout(ready, READY_TIMEOUT_MS, timeoutMessage);
    if (message === undefined) return undefined;
    this.#log('warn', 'not_ready', { message });
    return 'not ready; see the log for the reason';
  }
}

/** The server, and how it ends. */
export interface Gateway {
  readonly server: Server;
  /** Waits until clients have the answers that were sent, for a few seconds at most, and closes all connections. */
  close(): Promise<void>;
}

interface GatewayOptions {
  readonly router: ChatCompletionsRouter;
  readonly readiness: Readiness;
  readonly adminApi: AdminRouter | undefined;
  /** Undefined if every host name is accepted. */
  readonly hostNames: HostNames | undefined;
  readonly log: Log;
}

/**
 * The standalone server: `/healthz` (liveness), `/readyz` (readiness), with an admin API `/admin`, and the router at
 * every other path. The first two are answered whatever the `Host`, because load balancers use IP addresses.
 */
export function createGateway({ router, readiness, adminApi, hostNames, log }: GatewayOptions): Gateway {
  const sockets = new Set<Socket>();
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    const [path = '/'] = (request.url ?? '/').split('?', 1);
    if (path === '/healthz') answer(response, 200, { status: 'ok' });
    else if (path === '/readyz') void answerReadiness(response, readiness);
    else if (hostNames && !hostNames.allow(request)) {
      const error = new MisdirectedRequestError(request.headers.host);
      answer(response, error.status, error, { 'x-should-retry': 'false' });
    } else {
      const handler = adminApi && /^\/admin(\/|$)/.test(path) ? adminApi : router;
      handler(request, response).catch((error: unknown) => {
        log('error', 'error', { message: String(error) });
      });
    }
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  return {
    server,
    close: async () => {
      if (!server.listening) return;
      // `server.close()` would cut an answer that has ended, and whose last bytes are still in Node's queue.
      const sent = [...sockets].map((socket) => once(socket, 'close'));
      for (const socket of sockets) socket.destroySoon();
      await withTimeout(Promise.allSettled(sent), LAST_BYTES_MS, () => {});
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/**
 * Resolves to the server's origin once it listens, e.g. `http://127.0.0.1:8787`.
 *
 * @throws {Error} with a hint, if the port is in use
 */
export async function listen(server: Server, port: number, host: string): Promise<string> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    const code: unknown = Reflect.get(Object(error), 'code');
    const inUse = `port ${port} of ${host} is in use; choose another with --port or PORT in the environment`;
    throw code === 'EADDRINUSE' ? new Error(inUse, { cause: error }) : error;
  }
  const at = server.address();
  if (at === null || typeof at === 'string') throw new TypeError('server must listen on a TCP port');
  return `http://${at.family === 'IPv6' ? `[${at.address}]` : at.address}:${at.port}`;
}

async function answerReadiness(response: ServerResponse, readiness: Readiness): Promise<void> {
  const problem = await readiness.problem();
  if (problem === undefined) answer(response, 200, { status: 'ready' });
  else answer(response, 503, { status: 'not ready', problem });
}

function answer(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): void {
  const always = { 'content-type': 'application/json', 'cache-control': 'no-store' };
  response.writeHead(status, { ...always, ...headers }).end(JSON.stringify(body));
}
