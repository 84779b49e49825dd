import { randomUUID } from 'node:crypto';

import { createNodeHandler } from '../adapters/node.ts';
import { createWebHandler } from '../adapters/web.ts';
import { InternalError } from '../errors/router-error.ts';
import type { Exchange } from '../http/exchange.ts';
import { trimSlashes } from '../http/url.ts';
import { logError } from '../observability/hook-runner.ts';
import { asError } from '../platform/as-error.ts';
import type { ApiOptions } from './api-options.ts';
import { ApiRoutes } from './api-routes.ts';
import { type AuditEvent, logAudit } from './audit-log.ts';
import type { Endpoint } from './endpoint.ts';
import { handleRequest, type ServedApi } from './handle-request.ts';
import { openApi } from './openapi.ts';
import type { Actor, ApiDescription, ApiHandler } from './host-view.ts';

/** An API to serve. */
export interface ApiDefinition<Services, Caller extends Actor> extends Pick<
  ServedApi<Services, Caller>,
  'services' | 'page' | 'authorize'
> {
  readonly description: ApiDescription;
  readonly endpoints: readonly Endpoint<Services, Caller>[];
  readonly basePath: string;
  /** Of its request ids. */
  readonly idPrefix: string;
}

export function serveApi<Services, Caller extends Actor>(
  { description, endpoints, basePath, idPrefix, ...parts }: ApiDefinition<Services, Caller>,
  { onAudit = logAudit, onError = logError }: ApiOptions,
): ApiHandler {
  const reportError = async (error: Error, requestId: string): Promise<void> => {
    const failure = await guard(() => onError(error, { requestId }));
    if (failure) for (const each of [failure, error]) logError(each, { requestId });
  };
  const api: ServedApi<Services, Caller> = {
    ...parts,
    name: description.name,
    routes: new ApiRoutes(endpoints, trimSlashes(basePath)),
    description: openApi(endpoints, description),
    audit: async (event: AuditEvent) => {
      const failure = await guard(() => onAudit(event));
      if (failure) await reportError(failure, event.requestId);
    },
    onError: (error: Error, requestId: string) => void reportError(error, requestId),
  };
  const running = new WeakMap<object, Promise<void>>();
  const handle = (exchange: Exchange, request: object): Promise<void> => {
    const handled = handleRequest(exchange, addressOf(request), api);
    running.set(request, handled);
    return handled;
  };
  const newId = (): string => `${idPrefix}-${randomUUID()}`;
  return Object.assign(createNodeHandler(handle, newId), {
    fetch: createWebHandler(handle, newId),
    settled: async (request: object) => {
      await running.get(request)?.catch(() => {});
    },
  });
}

/**
 * What a hook that authorizes requests returned.
 *
 * @throws {InternalError} if the hook throws: an unauthenticated client must not see its error
 */
export async function answerOfHook<Answer>(hook: () => Answer | Promise<Answer>): Promise<Answer> {
  try {
    return await hook();
  } catch (thrown) {
    throw new InternalError(asError(thrown));
  }
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
