import type { IncomingMessage, ServerResponse } from 'node:http';

import { copyParsedBody, type NodeHandler } from './node.ts';

/** The members of a Koa context that the router uses. */
export interface KoaContextLike {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** Body parsers put the body here. */
  readonly request: object;
  readonly path: string;
  respond?: boolean | undefined;
}

export interface KoaOptions {
  /** Where the router is mounted, e.g. `/v1`: other paths go to the next middleware.
   *
   * @default '' (all paths, as under koa-mount)
   */
  readonly prefix?: string;
}

/** A middleware for `app.use`. */
export type KoaMiddleware = (context: KoaContextLike, next: () => Promise<unknown>) => Promise<void>;

/**
 * Mounts a router in Koa:
 *
 * ```ts
 * import { toKoaMiddleware } from 'chat-completions-router/koa';
 * app.use(toKoaMiddleware(router, { prefix: '/v1' }));
 * ```
 *
 * @throws {TypeError} if the prefix doesn't begin with a slash
 */
export function toKoaMiddleware(router: NodeHandler, { prefix = '' }: KoaOptions = {}): KoaMiddleware {
  const mount = prefix.replace(/(?<!\/)\/+$/, '');
  if (!/^(\/|$)/.test(prefix))
    throw new TypeError(`prefix must begin with a slash, got ${JSON.stringify(prefix)}`);
  return async (context, next) => {
    if (context.path !== mount && !context.path.startsWith(`${mount}/`)) {
      await next();
      return;
    }
    // Otherwise Koa answers 404, because its own response has no body.
    context.respond = false;
    copyParsedBody(context.req, context.request);
    await router(context.req, context.res);
  };
}
