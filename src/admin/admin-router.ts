import { randomUUID } from 'node:crypto';

import { createNodeHandler, type NodeHandler } from '../adapters/node.ts';
import { createWebHandler, type WebHandler } from '../adapters/web.ts';
import { InternalError, RouterError } from '../errors/errors.ts';
import { asError } from '../platform/as-error.ts';
import type { Exchange } from '../http/exchange.ts';
import { trimSlashes } from '../http/url.ts';
import { type AuditEvent, logAudit } from './audit-log.ts';
import { handleRequest } from './handle-request.ts';
import { endpoints } from './endpoints.ts';
import { openApi } from './openapi.ts';
import { type AdministeredRouter, type AdminRouterOptions, checkAdminOptions } from './options.ts';
import { AdminRoutes } from './admin-routes.ts';

/** Mounts as the router itself does: `app.use('/admin', admin)`, `http.createServer(admin)`, `/fastify`, `/koa`, `/hono`, `/next`. */
export interface AdminRouter extends NodeHandler {
  /** The Web door. Needs no `this`. */
  readonly fetch: WebHandler;
  /** Resolves once a request is over and its audit was told. The request is the object that the router was given. */
  settled(request: object): Promise<void>;
}

/**
 * Makes an HTTP interface of what a router's host can do: accounts, keys, credits, usage, the health of providers.
 *
 * Nothing of it is served unless it is mounted, and nobody is served whom `authorize` doesn't know.
 *
 * @throws {TypeError} naming the option that can't be right
 */
export function createAdminRouter(router: AdministeredRouter, options: AdminRouterOptions): AdminRouter {
  checkAdminOptions(options);
  const { authorize, onAudit = logAudit, onError = logError, basePath = '/admin' } = options;
  const tellError = async (error: Error, requestId: string): Promise<void> => {
    const failure = await guard(() => onError(error, { requestId }));
    if (failure) logError(failure, { requestId });
  };
  const services = {
    router,
    routes: new AdminRoutes(endpoints, trimSlashes(basePath)),
    description: openApi(endpoints),
    authorize,
    audit: async (event: AuditEvent) => {
      const failure = await guard(() => onAudit(event));
      if (failure) await tellError(failure, event.requestId);
    },
    onError: (error: Error, requestId: string) => void tellError(error, requestId),
  };
  const running = new WeakMap<object, Promise<void>>();
  const handle = (exchange: Exchange, request: object): Promise<void> => {
    const handled = handleRequest(exchange, addressOf(request), services);
    running.set(request, handled);
    return handled;
  };
  const newId = (): string => `adm-${randomUUID()}`;
  return Object.assign(createNodeHandler(handle, newId), {
    fetch: createWebHandler(handle, newId),
    settled: async (request: object) => {
      await running.get(request)?.catch(() => {});
    },
  });
}

/** What a hook of the host's threw, or rejected with. */
async function guard(hook: () => unknown): Promise<Error | undefined> {
  try {
    await hook();
    return undefined;
  } catch (thrown) {
    return asError(thrown);
  }
}

/** Express knows which proxies to believe; else it is the other end of the connection. */
function addressOf(request: object): string | undefined {
  const { ip, socket }: { readonly ip?: unknown; readonly socket?: { readonly remoteAddress?: unknown } } =
    request;
  const address = typeof ip === 'string' ? ip : socket?.remoteAddress;
  return typeof address === 'string' ? address : undefined;
}

/** A line for what we foresaw, all of it for what we did not. */
function logError(error: Error, { requestId }: { readonly requestId: string }): void {
  const foreseen = error instanceof RouterError && !(error instanceof InternalError);
  const because = foreseen && error.cause instanceof Error ? ` (${error.cause.message})` : '';
  const shown = foreseen ? `${error.code}: ${error.message}${because}` : error;
  console.error('chat-completions-router:', requestId, shown);
}
