import { withTimeout } from '../../async/timeout.ts';
import type { ModelOptions } from '../../options/model-options.ts';
import type { ProviderOptions } from '../../options/provider-options.ts';
import type { ChatCompletionsRouterOptions } from '../../options/router-options.ts';
import { findProviders as findKnown, type KnownProvider } from '../init/known-providers.ts';
import { startParrot } from './parrot/server.ts';

/** The providers and models of a demo: a part of the router's options. */
export interface DemoProviders {
  readonly providers: ChatCompletionsRouterOptions['providers'];
  readonly models: Readonly<Record<string, ModelOptions>>;
}

/**
 * A parrot that needs no key, and the real providers that this machine can reach: those whose environment variable is
 * set, an Ollama, and the server of `UPSTREAM_BASE_URL`.
 */
export async function findDemoProviders(env: NodeJS.ProcessEnv): Promise<DemoProviders> {
  const parrot = await startParrot({ background: true });
  const found = await Promise.all([findOllama(), findUpstream(env)]);
  return merged([
    withParrot(parrot.baseURL),
    ...findKnown(env).map((known) => ofKnown(known, env)),
    ...found,
  ]);
}

function withParrot(baseURL: string): DemoProviders {
  return {
    // It stops writing when its client disconnects: nothing more is charged.
    providers: { parrot: { baseURL, onDisconnect: 'abort' } },
    models: {
      'demo/parrot': {
        name: 'Parrot',
        description: 'Repeats what you say, at a human pace.',
        targets: ['parrot/parrot-1'],
        pricing: { input: '0.50', output: '1.50' }, // USD per million tokens
        contextWindow: 32_768,
        maxOutputTokens: 4_096,
      },
    },
  };
}

function ofKnown({ name, variable = '', models }: KnownProvider, env: NodeJS.ProcessEnv): DemoProviders {
  return {
    providers: { [name]: { apiKey: () => env[variable] } },
    models: Object.fromEntries(
      models.map(({ model, pricing, contextWindow, maxOutputTokens }) => [
        `${name}/${model}`,
        { targets: [{ provider: name, model }], pricing, contextWindow, maxOutputTokens },
      ]),
    ),
  };
}

/** The models of an Ollama on this machine; without one, an empty list. */
async function findOllama(): Promise<DemoProviders> {
  const models = await listModels('http://127.0.0.1:11434/v1', 300).catch(() => []);
  return freeModels('ollama', {}, models);
}

/** The models of the server that `UPSTREAM_BASE_URL` names, or the one in `UPSTREAM_MODEL`. */
async function findUpstream(env: NodeJS.ProcessEnv): Promise<DemoProviders> {
  const { UPSTREAM_BASE_URL: baseURL, UPSTREAM_API_KEY: apiKey, UPSTREAM_MODEL: model } = env;
  if (!baseURL) return { providers: {}, models: {} };
  const models = model ? [model] : await listModels(baseURL, 5_000, apiKey).catch(explain);
  return freeModels(
    'upstream',
    { baseURL, ...(apiKey && { apiKey: () => env['UPSTREAM_API_KEY'] }) },
    models,
  );

  function explain(error: unknown): string[] {
    const reason = error instanceof Error ? (error.cause ?? error) : error; // fetch says little itself
    console.error(`UPSTREAM_BASE_URL: ${baseURL}/models gave no list (${String(reason)}).`);
    console.error('Set UPSTREAM_MODEL to the name of a model there.');
    return [];
  }
}

/** Their prices are unknown, so they are free here: give them prices before your customers use them. */
function freeModels(name: string, provider: ProviderOptions, models: readonly string[]): DemoProviders {
  return {
    providers: { [name]: provider },
    models: Object.fromEntries(
      models.map((model) => [
        `${name}/${model}`,
        { targets: [{ provider: name, model }], pricing: 'free' as const },
      ]),
    ),
  };
}

async function listModels(baseURL: string, timeoutMs: number, apiKey?: string): Promise<string[]> {
  const timeout = new AbortController();
  const list = fetchModels(baseURL, timeout.signal, apiKey);
  return withTimeout(list, timeoutMs, () => {
    timeout.abort();
    throw new Error(`no answer within ${timeoutMs} ms`);
  });
}

async function fetchModels(baseURL: string, signal: AbortSignal, apiKey?: string): Promise<string[]> {
  const headers: Record<string, string> = apiKey ? { authorization: `Bearer ${apiKey}` } : {};
  const url = baseURL.endsWith('/') ? `${baseURL}models` : `${baseURL}/models`;
  const response = await fetch(url, { headers, signal });
  if (!response.ok) throw new Error(`status ${response.status}`);
  const list: unknown = await response.json();
  if (!isModelList(list)) throw new Error('no list of models');
  return list.data.map(({ id }) => id);
}

function isModelList(value: unknown): value is { data: { id: string }[] } {
  return typeof value === 'object' && value !== null && 'data' in value && Array.isArray(value.data);
}

function merged(parts: readonly DemoProviders[]): DemoProviders {
  return {
    providers: Object.assign({}, ...parts.map(({ providers }) => providers)),
    models: Object.assign({}, ...parts.map(({ models }) => models)),
  };
}
