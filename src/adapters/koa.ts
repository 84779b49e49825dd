import type { IncomingMessage, ServerResponse } from 'node:http';

import { copyParsedBody, type NodeHandler } from './node.ts';

/** What we use of a Koa context. */
export interface KoaContextLike {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** With what a body parser left there. */
  readonly request: object;
  readonly path: string;
  respond?: boolean | undefined;
}

export interface KoaOptions {
  /**
   * Where the router is mounted, e.g. `/v1`: other paths are left to the next middleware.
   *
   * @default '' (everything is the router's, as under koa-mount)
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
    // Else Koa would answer 404, for want of a body of its own.
    context.respond = false;
    copyParsedBody(context.req, context.request);
    await router(context.req, context.res);
  };
}
