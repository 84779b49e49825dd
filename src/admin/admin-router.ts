import { randomUUID } from 'node:crypto';

import { createNodeHandler, type NodeHandler } from '../adapters/node.ts';
import { createWebHandler, type WebHandler } from '../adapters/web.ts';
import { asError } from '../platform/as-error.ts';
import type { Exchange } from '../http/exchange.ts';
import { trimSlashes } from '../http/url.ts';
import { type AuditEvent, logAudit } from './audit-log.ts';
import { handleRequest } from './handle-request.ts';
import { openApi } from './openapi.ts';
import { type AdministeredRouter, type AdminRouterOptions, checkAdminOptions } from './options.ts';
import { AdminRoutes } from './admin-routes.ts';
import { endpoints } from './endpoints.ts';
import { logError } from '../observability/hook-runner.ts';

/** Mounts as the router itself does: `app.use('/admin', admin)`, `http.createServer(admin)`, `/fastify`, `/koa`, `/hono`, `/next`. */
export interface AdminRouter extends NodeHandler {
  /** The fetch handler. Needs no `this`. */
  readonly fetch: WebHandler;
  /** Resolves once a request is answered and `onAudit` is done with it. `request` is the object that the router was given. */
  settled(request: object): Promise<void>;
}

/**
 * Creates the admin API: the router's own functions over HTTP, for accounts, keys, credits, usage and provider health.
 *
 * It is served only where your app mounts it, and only to requests that `authorize` accepts.
 *
 * @throws {TypeError} naming the invalid option
 */
export function createAdminRouter(router: AdministeredRouter, options: AdminRouterOptions): AdminRouter {
  checkAdminOptions(options);
  const { authorize, onAudit = logAudit, onError = logError, basePath = '/admin' } = options;
  const reportError = async (error: Error, requestId: string): Promise<void> => {
    const failure = await guard(() => onError(error, { requestId }));
    if (failure) for (const each of [failure, error]) logError(each, { requestId });
  };
  const services = {
    router,
    routes: new AdminRoutes(endpoints, trimSlashes(basePath)),
    description: openApi(endpoints),
    authorize,
    audit: async (event: AuditEvent) => {
      const failure = await guard(() => onAudit(event));
      if (failure) await reportError(failure, event.requestId);
    },
    onError: (error: Error, requestId: string) => void reportError(error, requestId),
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

/** The error that a hook threw or rejected with. */
async function guard(hook: () => unknown): Promise<Error | undefined> {
  try {
    await hook();
    return undefined;
  } catch (thrown) {
    return asError(thrown);
  }
}

/** Express's `req.ip`, which respects trusted proxies; else the peer address of the connection. */
function addressOf(request: object): string | undefined {
  const { ip, socket }: { readonly ip?: unknown; readonly socket?: { readonly remoteAddress?: unknown } } =
    request;
  const address = typeof ip === 'string' ? ip : socket?.remoteAddress;
  return typeof address === 'string' ? address : undefined;
}
