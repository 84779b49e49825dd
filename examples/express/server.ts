/**
 * Your own OpenRouter, in an ordinary Express app.
 *
 *     npm run demo
 */
import { createChatCompletionsRouter } from 'chat-completions-router';
import express from 'express';
import { startParrot } from '../parrot/server.ts';
import { banner } from './banner.ts';
import { findProviders } from './providers.ts';

const { PORT = '8787' } = process.env;

// A provider of our own that needs no key, and whichever others this machine can reach.
const parrot = await startParrot();
const found = await findProviders(process.env);

const providers = {
  parrot: { baseURL: parrot.baseURL },
  ...found.providers, // e.g. openai: { apiKey: () => process.env.OPENAI_API_KEY }
};

const models = {
  'demo/parrot': {
    name: 'Parrot',
    description: 'Repeats what you say, at a human pace.',
    targets: [{ provider: 'parrot', model: 'parrot-1' }],
    pricing: { input: '0.50', output: '1.50' }, // USD per million tokens
    contextWindow: 32_768,
    maxOutputTokens: 4_096,
  },
  ...found.models,
};

const router = createChatCompletionsRouter({
  store: 'memory:', // keys and credits are gone when the process ends
  providers,
  models,
});

// An account is made by its first key, or its first credits.
const { key } = await router.keys.create({ account: 'demo', name: 'demo' });
await router.credits.grant('demo', '5.00', { id: 'welcome' }); // the same id again grants nothing
const { balance } = await router.credits.balance('demo');

const app = express();
app.use('/v1', router);
app.get('/', (_request, response) => {
  response.type('text').send('Chat completions are served at /v1.\n');
});

const server = app.listen(Number(PORT), (error) => {
  if (error) {
    console.error(`Can't listen on port ${PORT}: ${error.message}. Another one: PORT=8788 npm run demo`);
    process.exit(1);
  }
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : PORT;
  console.log(banner({ baseURL: `http://localhost:${port}/v1`, apiKey: key, balance, models }));
});

async function close(): Promise<void> {
  console.log('Closing; answers that are on their way are finished first.');
  server.close(); // takes no new connections
  await router.close(); // lets streams end, and charges them
  server.closeIdleConnections();
  await parrot.close();
}

process.once('SIGINT', () => void close());
process.once('SIGTERM', () => void close());
