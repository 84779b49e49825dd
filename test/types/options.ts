/** What the compiler says of options: `npm run check` compiles this file, and nothing runs it. */
import {
  type AuthenticatedCaller,
  type ChatCompletionsRouterOptions,
  createChatCompletionsRouter,
  type LedgerStore,
  MemoryStore,
  type PresetName,
  type Providers,
  RouterError,
  type Settled,
  type StoreURL,
} from 'chat-completions-router';
import { Cluster, Redis } from 'ioredis';

import { RedisStore } from '../../src/index.ts';

const minimal = { providers: {}, models: {} };

/** Written apart from the call, as constants of a config file are: literals keep their meaning. */
const models = {
  'acme/fast': {
    targets: ['openai/gpt-4o-mini', { provider: 'groq', model: 'llama', weight: 2, pricing: 'free' }],
    strategy: 'weighted',
    pricing: { input: '0.15', output: '0.60' },
    contextWindow: 128_000,
    maxOutputTokens: 16_384,
  },
  local: { targets: ['ollama/llama3.2'], pricing: 'free' },
} as const;

const providers = {
  openai: { apiKey: () => process.env['OPENAI_API_KEY'] },
  vault: { preset: 'openai', apiKey: async () => 'sk-…' },
  local: { baseURL: 'http://127.0.0.1:11434/v1', streamUsage: 'native', onDisconnect: 'drain' },
} as const;

const router = createChatCompletionsRouter({
  providers,
  models,
  holdMode: 'adaptive',
  retries: false,
  // The parameters of callbacks are known without being named.
  authenticate: (apiKey, { headers }) =>
    apiKey.startsWith('sk-') && headers.host !== undefined ? { account: 'acme' } : undefined,
  cacheKey: ({ headers }) => headers.host ?? '',
  hooks: {
    onSettled: ({ account, charged, usage }) => {
      account satisfies string;
      charged satisfies string;
      usage?.promptTokens satisfies number | undefined;
    },
    onError: async (error, { requestId }) => {
      if (error instanceof RouterError) error.code satisfies string;
      requestId satisfies string | undefined;
    },
  },
});

export const accepted: readonly ChatCompletionsRouterOptions[] = [
  minimal,
  { ...minimal, store: 'redis://127.0.0.1' },
  { ...minimal, store: process.env['CREDITS_STORE'] ?? 'sqlite:./credits.db' },
  { ...minimal, store: new MemoryStore() },
  { ...minimal, store: new RedisStore(new Redis()) },
  { ...minimal, store: new RedisStore(new Cluster([])) },
  { ...minimal, authenticate: async (): Promise<AuthenticatedCaller | undefined> => undefined },
];

export async function results(): Promise<void> {
  const { key } = await router.keys.create({ account: 'acme', name: 'prod' });
  key satisfies string;
  const { balance, held, totalUsed } = await router.credits.balance('acme');
  [balance, held, totalUsed] satisfies string[];
  for await (const account of router.credits.accounts()) account satisfies string;
  (await router.fetch(new Request('http://127.0.0.1/v1/models'))) satisfies Response;

  // @ts-expect-error -- a grant has an id, or it couldn't be repeated
  await router.credits.grant('acme', '5.00');
  // @ts-expect-error -- money is a decimal string
  await router.credits.grant('acme', 5, { id: 'welcome' });
  // @ts-expect-error -- a key is somebody's
  await router.keys.create({ name: 'prod' });
}

/** What editors list: the names of presets, and the stores that need no address. */
export const names: readonly PresetName[] = ['openai', 'azure-deployments', 'ollama'];
export const stores: readonly StoreURL[] = [
  'memory:',
  'sqlite:./credits.db',
  'rediss+cluster://a:6379,b:6379',
];
export const options: readonly (keyof Providers)[] = ['openai', 'mine'];
// @ts-expect-error -- no preset has this name
export const unknownPreset: PresetName = 'opnai';
// @ts-expect-error -- no such store
export const unknownStore: StoreURL = 'postgres://localhost/db';

// @ts-expect-error -- there is no router without models
createChatCompletionsRouter({ providers });
// @ts-expect-error -- a model without a price must say that it is free
createChatCompletionsRouter({ ...minimal, models: { free: { targets: ['local/llama3.2'] } } });
// @ts-expect-error -- prices are decimal strings
createChatCompletionsRouter({ ...minimal, models: { m: { targets: [], pricing: { input: 1, output: 2 } } } });
// @ts-expect-error -- an option that isn't there
createChatCompletionsRouter({ ...minimal, basepath: '/v1' });
// @ts-expect-error -- a mode of holds that isn't there
createChatCompletionsRouter({ ...minimal, holdMode: 'loose' });
// @ts-expect-error -- undefined is not a time
createChatCompletionsRouter({ ...minimal, timeouts: { idleMs: undefined } });
// @ts-expect-error -- a caller has an account
createChatCompletionsRouter({ ...minimal, authenticate: () => ({ user: 'ada' }) });
// @ts-expect-error -- not a store
createChatCompletionsRouter({ ...minimal, store: new Map() });

/** A store of one's own is one that has the contract's methods, whatever it extends. */
export function keepIn(store: LedgerStore, onSettled: (settled: Settled) => void): void {
  createChatCompletionsRouter({ ...minimal, store, hooks: { onSettled } });
}
