import type { IncomingMessage, ServerResponse } from 'node:http';
import { finished } from 'node:stream/promises';

import * as server from 'next/server.js';

import type { NodeHandler } from './node.ts';
import type { WebHandler } from './web.ts';

/** The members of a router that the adapter uses. */
export interface NextRouter {
  readonly fetch: WebHandler;
  settled(request: object): Promise<void>;
}

/** Handlers for a route of the App Router: every method, as Next.js answers missing ones itself. */
export interface NextHandlers {
  readonly GET: WebHandler;
  readonly HEAD: WebHandler;
  readonly POST: WebHandler;
  readonly PUT: WebHandler;
  readonly PATCH: WebHandler;
  readonly DELETE: WebHandler;
  readonly OPTIONS: WebHandler;
}

/**
 * Mounts a router in the App Router, with these two lines in `app/v1/[...path]/route.ts`:
 *
 * ```ts
 * import { toNextHandlers } from 'chat-completions-router/next';
 * export const { GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS } = toNextHandlers(router);
 * ```
 */
export function toNextHandlers(router: NextRouter): NextHandlers {
  // Next.js passes a second argument, which the fetch handler doesn't take.
  const handle: WebHandler = async (request) => {
    const response = await router.fetch(request);
    keepAliveUntil(router.settled(request));
    return response;
  };
  return {
    GET: handle,
    HEAD: handle,
    POST: handle,
    PUT: handle,
    PATCH: handle,
    DELETE: handle,
    OPTIONS: handle,
  };
}

/** Asks Next.js (from 15.1) and its platform to keep the process alive until then. */
function keepAliveUntil(work: Promise<void>): void {
  try {
    server.after?.(work);
  } catch {
    // Not called by Next.js.
  }
}

/** A handler of an API route of the Pages Router. */
export type NextPagesHandler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/**
 * Mounts a router in the Pages Router, with these two lines in `pages/api/v1/[...path].ts`:
 *
 * ```ts
 * export default toNextPagesHandler(router);
 * export const config = { api: { bodyParser: false, externalResolver: true } };
 * ```
 * The second line must be literal: Next.js reads it without running the file.
 */
export function toNextPagesHandler(router: NodeHandler & Pick<NextRouter, 'settled'>): NextPagesHandler {
  return async (request, response) => {
    await router(request, response);
    // A serverless platform may stop the process as soon as this resolves; a client that left is no error.
    await finished(response).catch(() => {});
    await router.settled(request);
  };
}
