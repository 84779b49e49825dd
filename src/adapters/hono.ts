import type { WebHandler } from './web.ts';

/** The members of a Hono context that the router uses. */
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
 * Uses the fetch handler, also on `@hono/node-server`, so that middleware can see the response and change
 * its headers. If middleware read the body, the router gets the copy that Hono keeps.
 */
export function toHonoHandler(router: { readonly fetch: WebHandler }): HonoHandler {
  return async ({ req }) => router.fetch(req.raw.bodyUsed ? await restoreBody(req) : req.raw);
}

/** The request with the body that middleware read; unchanged, if it was read without Hono. */
async function restoreBody(req: HonoContextLike['req']): Promise<Request> {
  const { url, method, headers, signal } = req.raw;
  const body = await req.arrayBuffer().catch(() => undefined);
  return body ? new Request(url, { method, headers, signal, body }) : req.raw;
}
