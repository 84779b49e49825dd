import { once } from 'node:events';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';

import OpenAI from 'openai';

import {
  type ChatCompletionsRouter,
  type ChatCompletionsRouterOptions,
  createChatCompletionsRouter,
  type Hooks,
  MemoryStore,
  type ModelOptions,
  type ProviderOptions,
  type Settled,
} from '../../src/index.ts';
import { PRESETS } from '../../src/catalog/presets.ts';
import type { Mount, Mounted } from '../contracts/mount.ts';
import { type Provider, startProvider } from './provider.ts';
import { transportOption } from './transport.ts';

export type { Mount, Mounted };

/** A whole gateway in a test: a provider on loopback, a router before it, an account with credits and a key. */
export interface Gateway {
  readonly provider: Provider;
  readonly router: ChatCompletionsRouter;
  readonly store: MemoryStore;
  /** Whose credits they are. */
  readonly account: string;
  readonly baseURL: string;
  readonly key: string;
  readonly client: OpenAI;
  /** What `onSettled` was told, in order. */
  readonly settled: Settled[];
  /** What `onError` was told, in order. */
  readonly errors: Error[];
  fetch(path: string, init?: RequestInit): Promise<Response>;
  post(body: unknown, init?: RequestInit): Promise<Response>;
  /** Resolves with the next request's settlement. */
  nextSettled: () => Promise<Settled>;
  close(): Promise<void>;
}

/** What every gateway has, also one whose router is in another process: there `router` shares its ledger only. */
export type AnyGateway = Omit<Gateway, 'store' | 'settled' | 'errors'>;

/** USD per million tokens: a prompt token costs 1,000 nano-dollars, a completion token 3,000, a cached one 100. */
export const PRICING = { input: '1', output: '3', cachedInput: '0.1' };
export const PROVIDER_KEY = 'sk-provider-secret';

export interface GatewayOptions extends Partial<ChatCompletionsRouterOptions> {
  readonly provider?: Partial<ProviderOptions>;
  /** What becomes of answers that clients leave is learned, as is the router's default; else they are cut off. */
  readonly learnsOfLeavers?: boolean;
}

/** What `startGateway` serves as `acme/fast`. */
export const FAST_MODEL: ModelOptions = {
  targets: ['loopback/upstream-model'],
  pricing: PRICING,
  contextWindow: 8192,
  maxOutputTokens: 1000,
};

export async function startGateway(
  options: GatewayOptions = {},
  mount: Mount = mountOnNode,
  credits = '5.00',
): Promise<Gateway> {
  const { provider: providerOptions, learnsOfLeavers, hooks, ...routerOptions } = options;
  const ofPreset = PRESETS[providerOptions?.preset ?? '']?.onDisconnect;
  const abort = !learnsOfLeavers && ofPreset === undefined;
  const provider = await startProvider();
  const store = new MemoryStore();
  const settled: Settled[] = [];
  const errors: Error[] = [];
  const waiting: ((settled: Settled) => void)[] = [];
  const own: Hooks = {
    onSettled: (event) => {
      settled.push(event);
      waiting.shift()?.(event);
    },
    onError: (error) => errors.push(error),
  };
  const router = createChatCompletionsRouter({
    store,
    providers: {
      loopback: {
        baseURL: provider.baseURL,
        apiKey: PROVIDER_KEY,
        ...(abort && { onDisconnect: 'abort' }),
        ...providerOptions,
      },
    },
    models: {
      'acme/fast': FAST_MODEL,
    },
    ...transportOption(),
    hooks: isSeveral(hooks) ? [own, ...hooks] : { ...own, ...hooks },
    ...routerOptions,
  });
  const { key } = await router.keys.create({ account: 'acct', name: 'test' });
  if (credits !== '0.00') await router.credits.grant('acct', credits, { id: 'welcome' });
  const mounted = await mount(router);
  return {
    provider,
    router,
    store,
    account: 'acct',
    ...clientsOf(mounted.baseURL, key),
    settled,
    errors,
    nextSettled: () => new Promise((resolve) => waiting.push(resolve)),
    close: async () => {
      await provider.close();
      await mounted.close();
      await router.close();
    },
  };
}

/** One hook in place of the gateway's own replaces it; an array comes beside them. */
function isSeveral(hooks: Hooks | readonly Hooks[] | undefined): hooks is readonly Hooks[] {
  return Array.isArray(hooks);
}

/** The ways to ask a gateway with a key. */
export function clientsOf(
  baseURL: string,
  key: string,
): Pick<Gateway, 'baseURL' | 'key' | 'client' | 'fetch' | 'post'> {
  const authorization = `Bearer ${key}`;
  const ask: Gateway['fetch'] = (path, init) =>
    fetch(baseURL + path, { ...init, headers: { authorization, ...init?.headers } });
  return {
    baseURL,
    key,
    client: new OpenAI({ baseURL, apiKey: key, maxRetries: 0 }),
    fetch: ask,
    post: (body, init) =>
      ask('/chat/completions', {
        method: 'POST',
        body: typeof body === 'string' ? body : JSON.stringify(body),
        ...init,
        headers: { 'content-type': 'application/json', ...init?.headers },
      }),
  };
}

/**
 * What a number is once it stands still while the gateway goes on serving other requests.
 *
 * @param requests - how many; TCP may delay an acknowledgement for as long as tens of them take
 */
export async function untilStill(gateway: AnyGateway, read: () => number, requests = 20): Promise<number> {
  for (let before = NaN; ;) {
    const now = read();
    if (now === before) return now;
    before = now;
    for (let n = 0; n < requests; n++) await (await gateway.fetch('/models')).text();
  }
}

/** `http.createServer(router)`, nothing else. */
export const mountOnNode: Mount = (router) => listen(http.createServer(router), '/v1');

/** Mounts a router in an app that sees the request, and the response, first. */
export function mountAfter(see: http.RequestListener): Mount {
  return (router) =>
    listen(
      http.createServer((request, response) => {
        see(request, response);
        void router(request, response);
      }),
      '/v1',
    );
}

export async function listen(server: http.Server, path: string): Promise<Mounted> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    baseURL: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** What `describeRouter` and most tests ask. */
export const QUESTION = {
  model: 'acme/fast',
  messages: [{ role: 'user' as const, content: 'Say hello.' }],
};
