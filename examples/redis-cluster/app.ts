/** One of any number of processes, on any number of machines, that share their accounts. */
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createChatCompletionsRouter } from 'chat-completions-router';
import express from 'express';
import { listening, models, providers } from '../demo/demo.ts';

const router = createChatCompletionsRouter({
  store: process.env['CREDITS_STORE'] ?? 'redis+cluster://127.0.0.1:7001,127.0.0.1:7002',
  // Charges wait here while Redis can't be reached. In your app: a folder that outlives the process.
  outboxDir: process.env['OUTBOX_DIR'] ?? join(tmpdir(), 'chat-completions-outbox'),
  providers,
  models,
});
await router.ready(); // says now what would keep Redis from being used

const app = express();
app.use('/v1', router);
const server = app.listen(Number(process.env['PORT'] ?? 8787), '127.0.0.1', (error) => {
  if (error) throw error;
  process.send?.(listening(server));
});

async function close(): Promise<void> {
  server.close(); // takes no new connections
  await router.close(); // lets streams end, and charges them
  server.closeIdleConnections();
  if (process.connected) process.disconnect();
}

process.once('SIGINT', close);
process.once('SIGTERM', close);
process.once('disconnect', close); // whoever started it has ended
