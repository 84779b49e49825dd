/**
 * Your own OpenRouter, in an ordinary Express app.
 *
 *     npm run example -- express
 */
import { createChatCompletionsRouter } from 'chat-completions-router';
import express from 'express';
import { announce, models, port, providers } from '../demo/demo.ts';

const router = createChatCompletionsRouter({
  store: 'memory:', // keys and credits are gone when the process ends
  providers,
  models,
});

const app = express();
app.use('/v1', router);
app.get('/', (_request, response) => {
  response.type('text').send('Chat completions are served at /v1.\n');
});

const server = app.listen(port, '127.0.0.1', (error) => {
  if (error) {
    console.error(
      `Can't listen on port ${port}: ${error.message}. Another one: PORT=8788 npm run example -- express`,
    );
    process.exit(1);
  }
  void announce(router, server);
});

async function close(): Promise<void> {
  console.log('Closing; answers that are on their way are finished first.');
  server.close(); // takes no new connections
  await router.close(); // lets streams end, and charges them
  server.closeIdleConnections();
}

process.once('SIGINT', close);
process.once('SIGTERM', close);
