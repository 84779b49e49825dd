/**
 * The router in a Fastify app.
 *
 *     npm run example -- fastify
 */
import { createChatCompletionsRouter } from 'chat-completions-router';
import { toFastifyPlugin } from 'chat-completions-router/fastify';
import { fastify } from 'fastify';
import { announce, models, port, providers } from '../demo/demo.ts';

const router = createChatCompletionsRouter({ store: 'memory:', providers, models });

// Fastify's own 72 seconds would keep an ended process waiting for clients that keep their connection.
const app = fastify({ keepAliveTimeout: 5_000 });
app.register(toFastifyPlugin(router), { prefix: '/v1' });
app.get('/', () => 'Chat completions are served at /v1.\n');
app.addHook('preClose', () => router.close()); // lets streams end, and charges them

await app.listen({ port, host: '127.0.0.1' });
await announce(router, app.server);

process.once('SIGINT', () => void app.close());
process.once('SIGTERM', () => void app.close());
