import { describe, expect, it } from 'vitest';

import { type ChatCompletionsRouterOptions, createChatCompletionsRouter } from '../../../src/index.ts';

const GOOD = {
  store: 'memory:',
  providers: { local: { baseURL: 'http://127.0.0.1:1/v1' }, openai: { apiKey: () => undefined } },
  models: {
    m: { targets: ['local/a/b', 'openai/gpt'], pricing: { input: '1', output: '2' }, maxOutputTokens: 100 },
  },
} satisfies ChatCompletionsRouterOptions;

function create(changes: Record<string, unknown>): () => unknown {
  return () => createChatCompletionsRouter({ ...GOOD, ...changes });
}

function withModel(changes: Record<string, unknown>): () => unknown {
  return create({ models: { m: { ...GOOD.models.m, ...changes } } });
}

function withProvider(changes: Record<string, unknown>): () => unknown {
  return create({ providers: { ...GOOD.providers, local: { ...GOOD.providers.local, ...changes } } });
}

describe('an option that can only be a mistake', () => {
  it.each([
    [
      'store',
      create({ store: 'memory' }),
      /^store must be 'memory:', 'sqlite:FILE', a redis:\/\/ URL or a store object, got "memory"/,
    ],
    ['an unknown one', create({ provider: {} }), /^options has an unknown key "provider"/],
    ['providers', create({ providers: [] }), /^providers must be an object, got an array$/],
    [
      'a provider that is its key',
      create({ providers: { openai: 'sk-secret' } }),
      /^providers\["openai"\] must be an object, got a string$/,
    ],
    ['models', create({ models: undefined }), /^models must be an object/],
    ['maxBodyBytes', create({ maxBodyBytes: 0 }), /^maxBodyBytes must be a positive integer, got 0/],
    [
      'maxBufferedBytes',
      create({ maxBufferedBytes: 0.5 }),
      /^maxBufferedBytes must be a positive integer, got 0.5/,
    ],
    [
      'maxBufferedBytes, less than one body',
      create({ maxBodyBytes: 1000, maxBufferedBytes: 999 }),
      /^maxBufferedBytes must be maxBodyBytes \(1000\) or more, got 999/,
    ],
    [
      'timeouts.idleMs',
      create({ timeouts: { idleMs: -1 } }),
      /^timeouts\.idleMs must be a number of milliseconds/,
    ],
    [
      'health.maxCoolDownMs, less than the first one',
      create({ health: { coolDownMs: 5000, maxCoolDownMs: 4999 } }),
      /^health\.maxCoolDownMs must be health\.coolDownMs \(5000\) or more, got 4999/,
    ],
    [
      'providers.local.stopAt.per',
      withProvider({ stopAt: { amount: '1.00', per: 'year' } }),
      /^providers\["local"\]\.stopAt\.per must be one of hour, day, week, month, got "year"/,
    ],
    [
      'providers.local.stopAt.amount',
      withProvider({ stopAt: { amount: '0.00', per: 'day' } }),
      /^providers\["local"\]\.stopAt\.amount must be more than 0, got "0\.00"/,
    ],
    [
      'providers.local.stopAt.amount, a number',
      withProvider({ stopAt: { amount: 5, per: 'day' } }),
      /^providers\["local"\]\.stopAt\.amount must be a decimal string of USD/,
    ],
    [
      'providers.local.stopAt, with another key',
      withProvider({ stopAt: { amount: '1.00', each: 'day' } }),
      /^providers\["local"\]\.stopAt has an unknown key "each"/,
    ],
    [
      'cors',
      create({ cors: '*' }),
      /^cors must be true, false or an object such as \{ origins: \['https:.*'\] \}, got "\*"$/,
    ],
    ['timeouts.idle', create({ timeouts: { idle: 1 } }), /^timeouts has an unknown key "idle"/],
    [
      'holdMode',
      create({ holdMode: 'loose' }),
      /^holdMode must be 'clamp', 'strict' or 'adaptive', got "loose"/,
    ],
    [
      'emptyAnswerIsFree',
      create({ emptyAnswerIsFree: 'yes' }),
      /^emptyAnswerIsFree must be a boolean, got "yes"/,
    ],
    ['heartbeatMs', create({ heartbeatMs: 0 }), /^heartbeatMs must be a number of milliseconds/],
    ['basePath', create({ basePath: 'v1' }), /^basePath must be a path/],
    ['outboxDir', create({ outboxDir: '' }), /^outboxDir must be the path of a folder, got ""/],
    ['authenticate', create({ authenticate: 'jwt' }), /^authenticate must be a function/],
    ['pricing', withModel({ pricing: undefined }), /^models\["m"\]\.pricing is missing/],
    [
      'pricing.input',
      withModel({ pricing: { input: 1, output: '1' } }),
      /^models\["m"\]\.pricing\.input must be/,
    ],
    [
      'pricing.output',
      withModel({ pricing: { input: '1', output: '1e5' } }),
      /^models\["m"\]\.pricing\.output must be/,
    ],
    [
      'maxOutputTokens',
      withModel({ maxOutputTokens: undefined }),
      /^models\["m"\]\.maxOutputTokens is missing/,
    ],
    [
      'enforceOutputLimit',
      withModel({ enforceOutputLimit: 'cut' }),
      /^models\["m"\]\.enforceOutputLimit must be 'lower' or 'insert', got "cut"/,
    ],
    [
      'tokenBudgets',
      withModel({ tokenBudgets: { file: 0 } }),
      /^models\["m"\]\.tokenBudgets\.file must be a positive integer/,
    ],
    ['targets', withModel({ targets: [] }), /^models\["m"\]\.targets must name at least one/],
    [
      'a target',
      withModel({ targets: ['gpt'] }),
      /^models\["m"\]\.targets\[0\] must be 'provider\/upstream-model'/,
    ],
    [
      'its provider',
      withModel({ targets: ['groq/llama'] }),
      /^models\["m"\]\.targets\[0\]\.provider must be one of/,
    ],
    [
      'baseURL',
      withProvider({ baseURL: 'api.groq.com' }),
      /^providers\["local"\]\.baseURL must be an absolute/,
    ],
    ['credentials in it', withProvider({ baseURL: 'http://u:p@x' }), /must not contain credentials/],
    ['preset', withProvider({ preset: 'nobody' }), /^providers\["local"\]\.preset must be one of/],
    ['streamUsage', withProvider({ streamUsage: true }), /^providers\["local"\]\.streamUsage must be/],
    [
      'onDisconnect',
      withProvider({ onDisconnect: 'wait' }),
      /^providers\["local"\]\.onDisconnect must be 'abort' or 'drain'/,
    ],
    ['a header of the transport', withProvider({ headers: { Host: 'x' } }), /must not contain host/],
    [
      'a header with a line break',
      withProvider({ headers: { 'x-a': 'b\r\nc: d' } }),
      /must be a string of printable/,
    ],
    [
      'a missing key',
      create({ providers: { openai: {} }, models: {} }),
      /^providers\["openai"\]\.apiKey is missing/,
    ],
    [
      'no baseURL',
      create({ providers: { acme: {} }, models: {} }),
      /^providers\["acme"\]\.baseURL is missing/,
    ],
  ])('fails at construction, by its name: %s', (_name, construct, message) => {
    expect(construct).toThrow(TypeError);
    expect(construct).toThrow(message);
  });

  it('never shows what was given for a key', () => {
    expect(withProvider({ apiKey: 12345 })).toThrow(/apiKey must be a non-empty string or a function$/);
    expect(withProvider({ apiKey: 'sk-secret\n' })).toThrow(
      /\]\.apiKey contains a blank, a line break or a non-ASCII character$/,
    );
    expect(withProvider({ apiKeys: ['sk-good', 'sk-secret '] })).toThrow(
      /\]\.apiKeys\[1\] contains a blank, a line break or a non-ASCII character$/,
    );
  });
});

describe('construction', () => {
  it('asks for no key', () => {
    let asked = 0;
    const apiKey = (): string => {
      asked += 1;
      return 'sk';
    };
    createChatCompletionsRouter({ ...GOOD, providers: { ...GOOD.providers, openai: { apiKey } } });
    expect(asked).toBe(0);
  });

  it('takes an empty catalog', () => {
    expect(() => createChatCompletionsRouter({ store: 'memory:', providers: {}, models: {} })).not.toThrow();
  });
});
