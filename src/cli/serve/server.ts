import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';

import { withTimeout } from '../../async/timeout.ts';
import type { AdminRouter } from '../../admin/admin-router.ts';
import { MisdirectedRequestError } from '../../errors/errors.ts';
import type { ChatCompletionsRouter } from '../../router/router.ts';
import type { HostNames } from './host-names.ts';
import type { Log } from './log.ts';

/** How long an answer to `/readyz` stands: who asks more often asks no store. */
const READY_CACHE_MS = 1000;
/** Longer than load balancers keep a connection that is idle, usually 60 s: else one may send a request into its end. */
const KEEP_ALIVE_MS = 65_000;
/** A store that takes longer than this to answer is none to serve from. */
const READY_TIMEOUT_MS = 5000;

/** Whether the process can serve, as load balancers ask it. */
export class Readiness {
  readonly #router: ChatCompletionsRouter;
  #lastCheck: { readonly at: number; readonly problem: Promise<string | undefined> } | undefined;
  #isClosing = false;

  readonly #log: Log;

  constructor(router: ChatCompletionsRouter, log: Log) {
    this.#router = router;
    this.#log = log;
  }

  /** What keeps it from serving; undefined when nothing does. The log says more than a stranger is told. */
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
    const late = (): string => `it has not answered in ${READY_TIMEOUT_MS} ms`;
    const message = await withTimeout(ready, READY_TIMEOUT_MS, late);
    if (message === undefined) return undefined;
    this.#log('warn', 'not_ready', { message });
    return 'it can not serve now; its log says why';
  }
}

interface GatewayOptions {
  readonly router: ChatCompletionsRouter;
  readonly readiness: Readiness;
  readonly adminApi: AdminRouter | undefined;
  /** Undefined where any name will do. */
  readonly hostNames: HostNames | undefined;
  readonly log: Log;
}

/**
 * A server of its own: the router at every path, but `/healthz` (it runs), `/readyz` (it can serve) and, where there
 * is an admin door, `/admin`. The first two are asked by addresses, too: they are answered whatever the `Host`.
 */
export function createGateway({ router, readiness, adminApi, hostNames, log }: GatewayOptions): Server {
  return createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    const [path = '/'] = (request.url ?? '/').split('?', 1);
    if (path === '/healthz') answer(response, 200, { status: 'ok' });
    else if (path === '/readyz') void answerReadiness(response, readiness);
    else if (hostNames && !hostNames.allow(request)) {
      const error = new MisdirectedRequestError(request.headers.host);
      answer(response, error.status, error, { 'x-should-retry': 'false' });
    } else {
      const door = adminApi && /^\/admin(\/|$)/.test(path) ? adminApi : router;
      door(request, response).catch((error: unknown) => {
        log('error', 'error', { message: String(error) });
      });
    }
  });
}

/**
 * Resolves with the address once the server listens.
 *
 * @throws an Error that says what to do where the port is taken
 */
export async function listen(server: Server, port: number, host: string): Promise<string> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    const code: unknown = Reflect.get(Object(error), 'code');
    const taken = `port ${port} of ${host} is taken: another one with --port, or PORT in the environment`;
    throw code === 'EADDRINUSE' ? new Error(taken, { cause: error }) : error;
  }
  const at = server.address();
  if (at === null || typeof at === 'string') throw new TypeError('the server has no port');
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
