import type { WebHandler } from './web.ts';

/** What we use of a Hono context. */
export interface HonoContextLike {
  readonly req: {
    readonly raw: Request;
    arrayBuffer(): Promise<ArrayBuffer>;
  };
}

/** A handler for `app.all`. */
export type HonoHandler = (context: HonoContextLike) => Promise<Response>;

/**
 * Mounts a router in Hono, on Node:
 *
 * ```ts
 * import { toHonoHandler } from 'chat-completions-router/hono';
 * app.all('/v1/*', toHonoHandler(router));
 * ```
 *
 * Through the Web door, also on `@hono/node-server`: only so do middleware see the response and may
 * change its headers. What they read of the request, Hono keeps, and the router gets.
 */
export function toHonoHandler(router: { readonly fetch: WebHandler }): HonoHandler {
  return async ({ req }) => router.fetch(req.raw.bodyUsed ? await restoreBody(req) : req.raw);
}

/** The request with the body that a middleware had read; as it is, if that went past Hono. */
async function restoreBody(req: HonoContextLike['req']): Promise<Request> {
  const { url, method, headers, signal } = req.raw;
  const body = await req.arrayBuffer().catch(() => undefined);
  return body ? new Request(url, { method, headers, signal, body }) : req.raw;
}
