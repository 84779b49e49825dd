import type { IncomingMessage, ServerResponse } from 'node:http';

import { copyParsedBody, type NodeHandler } from './node.ts';

/** The members of a Fastify request that the router uses. */
export interface FastifyRequestLike {
  readonly raw: IncomingMessage;
  readonly body?: unknown;
}

/** The members of a Fastify reply that the router uses. */
export interface FastifyReplyLike {
  readonly raw: ServerResponse;
  hijack(): unknown;
  getHeaders(): Readonly<Record<string, number | string | string[] | undefined>>;
}

/** The members of a Fastify instance that the router uses. */
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
 * The app's hooks run, and the headers that they set are sent. Its content type parsers don't run.
 */
export function toFastifyPlugin(router: NodeHandler): FastifyPlugin {
  const handle = toFastifyHandler(router);
  // oxlint-disable-next-line require-await -- Fastify waits for a callback of plugins that aren't async.
  return async (instance) => {
    instance.removeAllContentTypeParsers();
    instance.addContentTypeParser('*', (request, payload, done) => {
      // A `preParsing` hook may have replaced the stream.
      done(null, payload === request.raw ? undefined : payload);
    });
    instance.setErrorHandler(async (error, request, reply) => {
      // For a content type that Fastify can't read, the router sends its own error.
      if (error.code !== 'FST_ERR_CTP_INVALID_MEDIA_TYPE') throw error;
      await handle(request, reply);
    });
    instance.all('/*', handle);
    // Without a prefix, `/` is the app's own page.
    if (instance.prefix !== '') instance.all('/', handle);
  };
}

/** Makes a handler for an app's own route: `app.all('/v1/*', toFastifyHandler(router))`.
 *
 * The app's parsers read the body first, within their own limits: prefer the plugin.
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
