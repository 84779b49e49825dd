/**
 * The router on a bare node:http server.
 *
 *     npm run example -- node-http
 */
import { createServer } from 'node:http';
import { createChatCompletionsRouter } from 'chat-completions-router';
import { announce, models, port, providers } from '../demo/demo.ts';

const router = createChatCompletionsRouter({ store: 'memory:', providers, models });

const server = createServer(router);
server.listen(port, '127.0.0.1', () => announce(router, server));

async function close(): Promise<void> {
  server.close(); // takes no new connections
  await router.close(); // lets streams end, and charges them
  server.closeIdleConnections();
}

process.once('SIGINT', close);
process.once('SIGTERM', close);
