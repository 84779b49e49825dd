import type { IncomingMessage, ServerResponse } from 'node:http';

import { copyParsedBody, type NodeHandler } from './node.ts';

/** What we use of a Fastify request. */
export interface FastifyRequestLike {
  readonly raw: IncomingMessage;
  readonly body?: unknown;
}

/** What we use of a Fastify reply. */
export interface FastifyReplyLike {
  readonly raw: ServerResponse;
  hijack(): unknown;
  getHeaders(): Readonly<Record<string, number | string | string[] | undefined>>;
}

/** What we use of a Fastify instance. */
export interface FastifyInstanceLike {
  readonly prefix: string;
  removeAllContentTypeParsers(): unknown;
  addContentTypeParser(
    contentType: '*',
    parser: (
      request: FastifyRequestLike,
      payload: IncomingMessage,
      done: (error: null, body: unknown) => void,
    ) => void,
  ): unknown;
  setErrorHandler(
    handler: (
      error: { readonly code?: string },
      request: FastifyRequestLike,
      reply: FastifyReplyLike,
    ) => Promise<void>,
  ): unknown;
  all(
    path: string,
    handler: (request: FastifyRequestLike, reply: FastifyReplyLike) => Promise<void>,
  ): unknown;
}

/** A plugin for `app.register`. */
export type FastifyPlugin = (instance: FastifyInstanceLike) => Promise<void>;

/**
 * Mounts a router in Fastify:
 *
 * ```ts
 * import { toFastifyPlugin } from 'chat-completions-router/fastify';
 * app.register(toFastifyPlugin(router), { prefix: '/v1' });
 * ```
 *
 * The app's hooks run, and headers that they set are sent; its content type parsers don't.
 */
export function toFastifyPlugin(router: NodeHandler): FastifyPlugin {
  const handle = toFastifyHandler(router);
  // oxlint-disable-next-line require-await -- Fastify waits for a callback of plugins that aren't async.
  return async (instance) => {
    instance.removeAllContentTypeParsers();
    instance.addContentTypeParser('*', (request, payload, done) => {
      // A `preParsing` hook may have put a stream of its own before us.
      done(null, payload === request.raw ? undefined : payload);
    });
    instance.setErrorHandler(async (error, request, reply) => {
      // Of a content type that Fastify can't read: the router has its own word for that.
      if (error.code !== 'FST_ERR_CTP_INVALID_MEDIA_TYPE') throw error;
      await handle(request, reply);
    });
    instance.all('/*', handle);
    // Without a prefix that is the app's own home.
    if (instance.prefix !== '') instance.all('/', handle);
  };
}

/**
 * For apps that write their own route: `app.all('/v1/*', toFastifyHandler(router))`.
 *
 * There the app's parsers read the body first, within their own limits; prefer the plugin.
 */
export function toFastifyHandler(
  router: NodeHandler,
): (request: FastifyRequestLike, reply: FastifyReplyLike) => Promise<void> {
  return async (request, reply) => {
    reply.hijack();
    for (const [name, value] of Object.entries(reply.getHeaders())) {
      if (value !== undefined) reply.raw.setHeader(name, value);
    }
    copyParsedBody(request.raw, request);
    await router(request.raw, reply.raw);
  };
}
