import { createChatCompletionsRouter } from 'chat-completions-router';

/** What the blocks of docs/frameworks.md import as `./router.ts`, with the ledger and the provider of the test. */
export const router = createChatCompletionsRouter({
  store: process.env.CREDITS_STORE ?? 'memory:',
  providers: {
    loopback: {
      baseURL: process.env.PROVIDER_URL ?? 'http://127.0.0.1:1/v1',
      onDisconnect: 'abort',
      apiKey: () => process.env.PROVIDER_KEY,
    },
  },
  models: {
    'acme/fast': {
      targets: ['loopback/upstream-model'],
      pricing: { input: '1', output: '3', cachedInput: '0.1' },
      contextWindow: 8192,
      maxOutputTokens: 1000,
    },
  },
  // Keys are revoked by another process, of which this one hears when it asks the store again.
  keyCacheMs: 1,
  hooks: {
    // A line for the test that started this program.
    onSettled: (settled) => {
      console.log(`settled ${JSON.stringify(settled)}`);
    },
  },
});
