/**
 * The router in a Hono app on Node.
 *
 *     npm run example -- hono
 */
import { Server } from 'node:http';
import { serve } from '@hono/node-server';
import { createChatCompletionsRouter } from 'chat-completions-router';
import { toHonoHandler } from 'chat-completions-router/hono';
import { Hono } from 'hono';
import { announce, models, port, providers } from '../demo/demo.ts';

const router = createChatCompletionsRouter({ store: 'memory:', providers, models });

const app = new Hono();
app.all('/v1/*', toHonoHandler(router));
app.get('/', (context) => context.text('Chat completions are served at /v1.\n'));

const server = serve({ fetch: app.fetch, port, hostname: '127.0.0.1' }, () => announce(router, server));

async function close(): Promise<void> {
  server.close(); // takes no new connections
  await router.close(); // lets streams end, and charges them
  if (server instanceof Server) server.closeIdleConnections();
}

process.once('SIGINT', close);
process.once('SIGTERM', close);
