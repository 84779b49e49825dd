/** A router of any build: `version.ts ORIGIN STORE FOLDER`. */
import * as http from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import type { createChatCompletionsRouter } from 'chat-completions-router';

import { answerParent } from './parent.ts';

interface Build {
  readonly createChatCompletionsRouter: typeof createChatCompletionsRouter;
}

const [origin = '', store = '', folder = ''] = process.argv.slice(2);
const build: Build = await import(pathToFileURL(join(folder, 'index.js')).href);
const router = build.createChatCompletionsRouter({
  store,
  providers: { bench: { baseURL: `${origin}/v1` } },
  models: {
    'json-1200': {
      targets: [{ provider: 'bench', model: 'json-1200' }],
      contextWindow: 100_000_000,
      maxOutputTokens: 4096,
      pricing: { input: '1.00', output: '3.00' },
    },
  },
  requestLogDays: 0,
});
await router.ready();
const { key } = await router.keys.create({ account: 'bench', name: 'bench' });
await router.credits.grant('bench', '1000000', { id: 'bench' });
const server = http.createServer((request, response) => void router(request, response));
server.listen(0, '127.0.0.1', 8192, () => answerParent(server, { key: () => key }));
