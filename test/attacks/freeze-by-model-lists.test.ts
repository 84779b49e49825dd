import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import {
  type ChatCompletionsRouter,
  type ChatCompletionsRouterOptions,
  createChatCompletionsRouter,
  MemoryStore,
} from '../../src/index.ts';
import { cpuTimeOf } from './cpu-time.ts';

const REQUESTS = 40;
let router: ChatCompletionsRouter;

beforeAll(() => {
  router = createChatCompletionsRouter({
    store: new MemoryStore(),
    providers: { loopback: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'sk' } },
    models: models(),
    publicModels: true,
  });
});

afterAll(() => router.close());

/** 10,000 models, with all that a list says of one. */
function models(): ChatCompletionsRouterOptions['models'] {
  const options = {
    targets: ['loopback/x'],
    pricing: { input: '1', output: '3' },
    contextWindow: 128_000,
    maxOutputTokens: 8192,
    description: 'What it is for, in a sentence or two, as other lists of models have it.',
    supportedParameters: ['tools', 'seed', 'temperature', 'top_p', 'reasoning', 'stop'],
    inputModalities: ['text', 'image'],
  } as const;
  return Object.fromEntries(
    Array.from({ length: 10_000 }, (_, i) => [`vendor-${i % 50}/model-${i}`, options]),
  );
}

/** The answer to a client without a key that has this answer already, so that the time isn't that of its bytes. */
async function ask(path: string): Promise<number> {
  const request = new Request(`http://router.test/v1/${path}`, { headers: { 'if-none-match': '*' } });
  return (await router.fetch(request)).status;
}

/** The processor's time of that many requests, the least of three times. */
async function timeOf(path: (n: number) => string): Promise<number> {
  let least = Infinity;
  for (let run = 0; run < 3; run++) {
    const ms = await cpuTimeOf(async () => {
      for (let n = 0; n < REQUESTS; n++) expect(await ask(path(REQUESTS * run + n))).toBe(304);
    });
    least = Math.min(least, ms);
  }
  return least;
}

describe('a query of 10,000 models that was never asked before', () => {
  const names = Array.from({ length: 60 }, (_, i) => `x${i}`);
  const HOSTILE: readonly (readonly [what: string, query: (n: number) => string])[] = [
    ['that all match', (n) => `q=m&offset=${n}`],
    ['for many names', (n) => `input_modalities=${names.slice(n % 40).join()},image&offset=${n}`],
  ];

  it.each(HOSTILE)('%s takes little more time than one model', async (_what, query) => {
    const harmless = await timeOf((n) => `models/vendor-${n % 50}/model-${n}`);
    expect(await timeOf((n) => `models?${query(n)}`)).toBeLessThan(100 * harmless);
  });
});

describe('10,000 models that were just loaded', () => {
  /** The longest turn of the event loop as a share of the time that something takes: the least of three times. */
  async function longestTurn(run: () => Promise<unknown>): Promise<number> {
    let least = Infinity;
    for (let i = 0; i < 3; i++) {
      router.reload({ models: models() });
      const began = performance.now();
      const turns = [began];
      const note = (): void => {
        turns.push(performance.now());
        next = setImmediate(note);
      };
      let next = setImmediate(note);
      await run();
      note();
      clearImmediate(next);
      const longest = Math.max(...turns.map((at, n) => at - (turns[n - 1] ?? began)));
      least = Math.min(least, longest / (performance.now() - began));
    }
    return least;
  }

  it.each<[string, () => Promise<unknown>]>([
    ['listed', () => ask('models')],
    ['searched', () => ask('models?q=m&limit=5000')],
    ['read by the app', () => router.models()],
  ])('never hold the event loop while they are first %s', async (_what, run) => {
    expect(await longestTurn(run)).toBeLessThan(0.3);
  });

  it('are sent piece by piece while the client reads, and no further than that', async () => {
    const request = new Request('http://router.test/v1/models');
    const response = await router.fetch(request);
    const reader = response.body!.getReader();
    const { value } = await reader.read();
    expect(value?.length).toBeLessThan(Number(response.headers.get('content-length')) / 10);
    await reader.cancel();
    // It waits for its client no longer.
    await router.settled(request);
  });
});
