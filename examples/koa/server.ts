/**
 * The router in a Koa app.
 *
 *     npm run example -- koa
 */
import { createChatCompletionsRouter } from 'chat-completions-router';
import { toKoaMiddleware } from 'chat-completions-router/koa';
import Koa from 'koa';
import { announce, models, port, providers } from '../demo/demo.ts';

const router = createChatCompletionsRouter({ store: 'memory:', providers, models });

const app = new Koa();
app.use(toKoaMiddleware(router, { prefix: '/v1' }));
app.use((context) => {
  context.body = 'Chat completions are served at /v1.\n';
});

const server = app.listen(port, '127.0.0.1', () => announce(router, server));

async function close(): Promise<void> {
  server.close(); // takes no new connections
  await router.close(); // lets streams end, and charges them
  server.closeIdleConnections();
}

process.once('SIGINT', close);
process.once('SIGTERM', close);
