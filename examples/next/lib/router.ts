import { randomBytes } from 'node:crypto';
import { createChatCompletionsRouter } from 'chat-completions-router';

/** Nothing is opened or asked for here: `next build` runs this too, without any of these variables. */
export const router = createChatCompletionsRouter({
  store: process.env['CREDITS_STORE'] ?? 'sqlite:./credits.db',
  // In your app: the same secret in all processes. Without one, as in `next build`, each makes its own.
  sessions: { secret: process.env['SESSION_SECRET'] ?? randomBytes(32).toString('hex') },
  providers: {
    // It stops writing when its client disconnects: nothing more is charged.
    parrot: { baseURL: process.env['PARROT_URL'] ?? 'http://127.0.0.1:8788/v1', onDisconnect: 'abort' },
    openai: { apiKey: () => process.env['OPENAI_API_KEY'] },
  },
  models: {
    'demo/parrot': {
      targets: ['parrot/parrot-1'],
      pricing: { input: '10', output: '40' }, // dear enough, in USD per million tokens, to see the credits fall
      contextWindow: 32_768,
      maxOutputTokens: 1_000,
    },
    'openai/gpt-4o-mini': {
      targets: ['openai/gpt-4o-mini'],
      pricing: { input: '0.15', output: '0.60', cachedInput: '0.075' },
      contextWindow: 128_000,
      maxOutputTokens: 16_384,
    },
  },
});

/** The account that this page's visitors share; in your app, the account of who is signed in. */
export const ACCOUNT = 'demo';

export const MODEL = process.env['MODEL'] ?? 'demo/parrot';
