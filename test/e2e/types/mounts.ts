/** What the compiler says of each mount, by the frameworks' own types: `npm run check` compiles this file. */
import * as http from 'node:http';
import * as https from 'node:https';

import type { INestApplication, MiddlewareConsumer } from '@nestjs/common';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { createChatCompletionsRouter } from 'chat-completions-router';
import { createAdminRouter } from 'chat-completions-router/admin';
import { toFastifyHandler, toFastifyPlugin } from 'chat-completions-router/fastify';
import { toHonoHandler } from 'chat-completions-router/hono';
import { toKoaMiddleware } from 'chat-completions-router/koa';
import { toNextHandlers, toNextPagesHandler } from 'chat-completions-router/next';
import express from 'express';
import { fastify } from 'fastify';
import { fromWebHandler, H3 } from 'h3';
import { Hono } from 'hono';
import Koa from 'koa';

const router = createChatCompletionsRouter({ providers: {}, models: {} });

http.createServer(router);
https.createServer({}, router);

express().use('/v1', router).use(router).all('/v1/*path', router);
express.Router().use('/', router);

const app = fastify();
app.register(toFastifyPlugin(router), { prefix: '/v1' });
app.all('/v1/*', toFastifyHandler(router));
fastify({ http2: false, logger: true }).register(toFastifyPlugin(router));

new Koa().use(toKoaMiddleware(router, { prefix: '/v1' })).use(toKoaMiddleware(router));
new Koa<{ user: string }>().use(toKoaMiddleware(router));

new Hono().all('/v1/*', toHonoHandler(router));
new Hono<{ Bindings: { secret: string }; Variables: { user: string } }>().all('/v1/*', toHonoHandler(router));
new Hono().mount('/v1', router.fetch);

new H3().all('/v1/**', (event) => router.fetch(event.req)).all('/v1/**', fromWebHandler(router.fetch));

export function mountInNest(nest: INestApplication, onFastify: NestFastifyApplication): void {
  nest.use('/v1', router);
  void onFastify.register(toFastifyPlugin(router), { prefix: '/v1' });
}
export function configure(consumer: MiddlewareConsumer): void {
  consumer.apply(router).forRoutes('/v1/*path');
}

const admin = createAdminRouter(router, {
  authorize: async ({ headers, method, path }) =>
    headers.authorization === 'Bearer secret' && method === 'GET' && path !== '' ? 'ada' : undefined,
  onAudit: ({ operator, action, account, outcome }) => {
    operator satisfies string | undefined;
    [action, account] satisfies string[];
    outcome satisfies 'done' | 'repeated' | 'refused' | 'failed';
  },
});
http.createServer(admin);
express().use('/admin', admin);
app.register(toFastifyPlugin(admin), { prefix: '/admin' });
new Koa().use(toKoaMiddleware(admin, { prefix: '/admin' }));
new Hono().all('/admin/*', toHonoHandler(admin)).mount('/admin', admin.fetch);
new H3().all('/admin/**', fromWebHandler(admin.fetch));
toNextHandlers(admin);
toNextPagesHandler(admin);

// @ts-expect-error -- nobody is an operator by default
createAdminRouter(router, {});
// @ts-expect-error -- nor is everybody
createAdminRouter(router, { authorize: true });
// @ts-expect-error -- an operator has a name
createAdminRouter(router, { authorize: () => 7 });
// @ts-expect-error -- the options of a router are none
createAdminRouter({ providers: {}, models: {} }, { authorize: () => 'ada' });

/** As `next build` has it, which checks them by its own types (`test/e2e/next/fixture`, `examples/next`). */
type RouteHandler = (
  request: Request,
  context: { params: Promise<{ path: string[] }> },
) => Response | Promise<Response>;
toNextHandlers(router) satisfies Record<
  'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS',
  RouteHandler
>;
toNextPagesHandler(router) satisfies http.RequestListener;

// @ts-expect-error -- a prefix is a string
toKoaMiddleware(router, { prefix: /v1/ });
// @ts-expect-error -- the options are not a router
toFastifyPlugin({ providers: {}, models: {} });
// @ts-expect-error -- nor is what only the Node door needs
toHonoHandler(http.createServer());
