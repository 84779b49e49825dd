// An app that has the package beside others: asks for a completion by each way in that it has, and prints what it was
// told and what it was charged.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

import { createChatCompletionsRouter } from 'chat-completions-router';
import { startFakeProvider } from 'chat-completions-router/testing';
import OpenAI from 'openai';

const { dependencies } = JSON.parse(readFileSync('package.json', 'utf8'));
const has = (name) => name in dependencies;

const provider = await startFakeProvider();
const hooks = [];
if (has('@opentelemetry/api')) {
  const { openTelemetryHooks } = await import('chat-completions-router/opentelemetry');
  hooks.push(openTelemetryHooks());
}
const prices = has('@pydantic/genai-prices')
  ? (await import('chat-completions-router/prices')).catalogPrices()
  : undefined;
const router = createChatCompletionsRouter({
  store: 'memory:',
  providers: { openai: { baseURL: provider.baseURL, apiKey: 'sk-provider' } },
  models: {
    'acme/fast': { targets: ['openai/fast'], pricing: { input: '1', output: '3' }, maxOutputTokens: 1000 },
    ...(prices && {
      'acme/priced': { targets: ['openai/gpt-4o-mini'], pricing: 'catalog', maxOutputTokens: 1000 },
    }),
  },
  ...(prices && { prices }),
  hooks,
});
const { key } = await router.keys.create({ account: 'acme' });
await router.credits.grant('acme', '5.00', { id: 'welcome' });

let handle = router;
if (has('express')) {
  const { default: express } = await import('express');
  handle = express().use('/v1', router);
}
const server = createServer(handle);
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const openai = new OpenAI({
  baseURL: `http://127.0.0.1:${server.address().port}/v1`,
  apiKey: key,
  maxRetries: 0,
});
const question = { model: 'acme/fast', messages: [{ role: 'user', content: 'Say hello.' }] };
const told = [(await openai.chat.completions.create(question)).choices[0].message.content];

if (has('next')) {
  const { toNextHandlers } = await import('chat-completions-router/next');
  const response = await toNextHandlers(router).POST(
    new Request('http://127.0.0.1/v1/chat/completions', {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(question),
    }),
  );
  told.push((await response.json()).choices[0].message.content);
}

await router.close();
console.log(JSON.stringify({ told, charged: (await router.credits.balance('acme')).totalUsed }));
process.exit();
