import { afterEach, describe, expect, it } from 'vitest';

import {
  type ChatCompletionsRouterOptions,
  createChatCompletionsRouter,
  type ModelOptions,
  type PriceCatalog,
} from '../../../src/index.ts';
import { createCatalog } from '../../../src/catalog/catalog.ts';
import { resolveSettings } from '../../../src/options/resolve-options.ts';
import { cpuTime } from '../../attacks/cpu-time.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson } from '../../helpers/provider.ts';

const MODEL: ModelOptions = {
  targets: ['loopback/upstream-model'],
  pricing: PRICING,
  contextWindow: 8192,
  maxOutputTokens: 1000,
};
const STAR: ModelOptions = { ...MODEL, targets: ['loopback/*'] };

let gateway: Gateway;

async function start(
  models: Readonly<Record<string, ModelOptions>>,
  options: Partial<ChatCompletionsRouterOptions> = {},
): Promise<void> {
  gateway = await startGateway({ models, ...options });
}

/** What the provider was asked for, or the status of the refusal. */
async function asked(model: string): Promise<unknown> {
  const before = gateway.provider.received.length;
  const { status } = await gateway.post({ ...QUESTION, model });
  const received = gateway.provider.received[before];
  return received ? (JSON.parse(received.body.toString()) as { model: unknown }).model : status;
}

describe('a wildcard', () => {
  afterEach(() => gateway.close());

  it('sends the rest of the ID in place of the star', async () => {
    await start({ 'acme/*': { ...STAR, targets: ['loopback/ft:*:v1'] } });
    expect(await asked('acme/smart')).toBe('ft:smart:v1');
    expect(await asked('acme/a/b')).toBe('ft:a/b:v1');
  });

  it('comes after an entry of its own, and after a longer wildcard', async () => {
    const of = (name: string): ModelOptions => ({ ...STAR, targets: [`loopback/${name}`] });
    await start({
      '*': of('all'),
      'acme/*': of('acme'),
      'acme/fast-*': of('fast'),
      'acme/fast-1': of('one'),
    });
    expect(await asked('acme/fast-1')).toBe('one');
    expect(await asked('acme/fast-2')).toBe('fast');
    expect(await asked('acme/slow')).toBe('acme');
    expect(await asked('other')).toBe('all');
  });

  it('stands for at least one character', async () => {
    await start({ 'acme-*': STAR });
    expect(await asked('acme-')).toBe(404);
    gateway.router.reload({ models: { 'acme-*': STAR, '*': STAR } });
    expect(await asked('acme-')).toBe('acme-');
  });

  it.each(['acme/', 'acme/a b', 'acme/a\u0000', `acme/${'a'.repeat(252)}`, 'acme/\ud800'])(
    'makes no model of what can be no ID: %j',
    async (id) => {
      await start({ 'acme/*': STAR });
      expect(await asked(id)).toBe(404);
    },
  );

  it.each(['acme/..', 'acme/../x', 'acme/a/./b', 'acme/a//b'])(
    'makes no model of dots that lead out of a path: %s',
    async (id) => {
      await start({ 'acme/*': STAR });
      expect(await asked(id)).toBe(404);
    },
  );

  it('is charged and journaled by the ID that was asked for, and says which star it is', async () => {
    await start({ 'acme/*': STAR });
    const settled = gateway.nextSettled();
    await gateway.post({ ...QUESTION, model: 'acme/smart' });
    expect(await settled).toMatchObject({
      model: 'acme/smart',
      wildcard: 'acme/*',
      upstreamModel: 'smart',
      charged: '0.000045',
    });
  });

  it('is shown for each of its models, and not in the list', async () => {
    await start({ 'acme/*': STAR, 'acme/fast': MODEL });
    const { data } = (await (await gateway.fetch('/models')).json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id)).toEqual(['acme/fast']);
    const record = await (await gateway.fetch('/models/acme/smart')).json();
    expect(record).toMatchObject({ id: 'acme/smart', name: 'acme/smart', owned_by: 'acme' });
  });

  it('shares the health of its target among all IDs, so that invented ones fill no memory', async () => {
    await start({ 'acme/*': STAR }, { retries: false, health: { failures: 3, coolDownMs: 60_000 } });
    gateway.provider.script = answerJson('{"error":{"message":"no"}}', 500);
    for (const model of ['acme/1', 'acme/2', 'acme/3']) await gateway.post({ ...QUESTION, model });
    expect(gateway.router.health()).toMatchObject([{ model: '*', state: 'ejected', failuresInARow: 3 }]);
  });
});

describe('an alias', () => {
  afterEach(() => gateway.close());

  it('asks, charges and journals its model', async () => {
    await start({ 'acme/fast': { ...MODEL, aliases: ['fast', 'acme/latest'] } });
    const settled = gateway.nextSettled();
    expect(await asked('fast')).toBe('upstream-model');
    expect(await settled).toMatchObject({ model: 'acme/fast', charged: '0.000045' });
  });

  it('leaves the bytes of the answer as they are', async () => {
    await start({ 'acme/fast': { ...MODEL, aliases: ['fast'] } });
    const [own, alias] = [await gateway.post(QUESTION), await gateway.post({ ...QUESTION, model: 'fast' })];
    expect(await alias.text()).toBe(await own.text());
  });

  it('is shown in its model’s record, which it leads to', async () => {
    await start({ 'acme/fast': { ...MODEL, aliases: ['fast'] } });
    const { data } = (await (await gateway.fetch('/models')).json()) as { data: unknown[] };
    expect(data).toMatchObject([{ id: 'acme/fast', aliases: ['fast'] }]);
    expect(await (await gateway.fetch('/models/fast')).json()).toEqual(data[0]);
  });

  it('allows a key that is allowed it all names of its model', async () => {
    await start({ 'acme/fast': { ...MODEL, aliases: ['fast', 'quick'] }, other: MODEL });
    const { key } = await gateway.router.keys.create({ account: 'acct', models: ['fast'] });
    const status = async (model: string): Promise<number> => {
      const headers = { authorization: `Bearer ${key}` };
      return (await gateway.post({ ...QUESTION, model }, { headers })).status;
    };
    expect(await Promise.all(['fast', 'quick', 'acme/fast', 'other'].map(status))).toEqual([
      200, 200, 200, 403,
    ]);
  });

  it('is allowed by a key where the account is allowed its model by another name, and is listed then', async () => {
    await start({ 'acme/fast': { ...MODEL, aliases: ['fast'] }, 'acme/other': MODEL, mine: MODEL });
    await gateway.router.accounts.update('acct', { models: ['acme/*'] });
    const { key } = await gateway.router.keys.create({ account: 'acct', models: ['fast', 'mine'] });
    const headers = { authorization: `Bearer ${key}` };
    const status = async (model: string): Promise<number> =>
      (await gateway.post({ ...QUESTION, model }, { headers })).status;
    expect(await Promise.all(['fast', 'acme/fast', 'acme/other', 'mine'].map(status))).toEqual([
      200, 200, 403, 403,
    ]);
    const { data } = (await (await gateway.fetch('/models', { headers })).json()) as { data: unknown[] };
    expect(data).toMatchObject([{ id: 'acme/fast' }]);
  });

  it('comes before a wildcard', async () => {
    await start({ '*': STAR, 'acme/fast': { ...MODEL, aliases: ['fast'] } });
    expect(await asked('fast')).toBe('upstream-model');
  });
});

describe('a catalog', () => {
  const OPTIONS: ChatCompletionsRouterOptions = {
    store: 'memory:',
    providers: { loopback: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'sk' } },
    models: {},
  };
  const withModels = (models: Readonly<Record<string, ModelOptions>>, prices?: PriceCatalog) =>
    createCatalog({ ...OPTIONS, models }, resolveSettings({ ...OPTIONS, ...(prices && { prices }) }));

  it.each<[string, Readonly<Record<string, ModelOptions>>]>([
    ['models["a*b"]: a wildcard * is only allowed at the end of an ID', { 'a*b': STAR }],
    ['models["a**"]: a wildcard * is only allowed', { 'a**': STAR }],
    ['models["a/*"].targets[0] has more than one *', { 'a/*': { ...STAR, targets: ['loopback/*-*'] } }],
    ['models["a/*"].aliases: a wildcard stands for many models', { 'a/*': { ...STAR, aliases: ['b'] } }],
    ['models["a/*"].pricing.input must be', { 'a/*': { ...STAR, pricing: { input: 'x', output: '1' } } }],
    ['models["a/*"].targets[0].provider must be one of', { 'a/*': { ...STAR, targets: ['nobody/*'] } }],
    ['models["a"].aliases must be a list', { a: { ...MODEL, aliases: 'b' as unknown as string[] } }],
    [
      'models["a"].inputModalities must be a list of names',
      { a: { ...MODEL, inputModalities: 'text' as unknown as string[] } },
    ],
    [
      'models["a"].supportedParameters must be a list of names',
      { a: { ...MODEL, supportedParameters: [7] as unknown as string[] } },
    ],
    ['models["a"].aliases has " ": a model ID has', { a: { ...MODEL, aliases: [' '] } }],
    [
      `models["b"].aliases has "a", which is already a model's ID`,
      { a: MODEL, b: { ...MODEL, aliases: ['a'] } },
    ],
    [
      'models["b"].aliases has "c", which is already an alias of "a"',
      { a: { ...MODEL, aliases: ['c'] }, b: { ...MODEL, aliases: ['c'] } },
    ],
  ])('refuses what can’t be right: %s', (message, models) => {
    expect(() => withModels(models)).toThrow(message);
    expect(() => createChatCompletionsRouter({ ...OPTIONS, models })).toThrow(TypeError);
  });

  it('keeps the same thousand models of a wildcard, and makes others again', () => {
    const catalog = withModels({ 'a/*': STAR });
    const first = catalog.get('a/0');
    expect(catalog.get('a/0')).toBe(first);
    for (let i = 1; i <= 1000; i++) catalog.get(`a/${i}`);
    expect(catalog.get('a/1000')).toBe(catalog.get('a/1000'));
    expect(catalog.get('a/0')).not.toBe(first);
    expect(catalog.get('a/0')).toEqual(first);
  });

  it('makes no model of a wildcard that its price catalog doesn’t know', () => {
    const prices: PriceCatalog = {
      find: ({ model }) =>
        model === 'known' ? { pricing: { input: '1', output: '2' }, contextWindow: 4096 } : undefined,
    };
    const star: ModelOptions = { targets: ['loopback/*'], pricing: 'catalog' };
    const catalog = withModels({ 'a/*': star }, prices);
    expect(catalog.get('a/known')).toMatchObject({ contextWindow: 4096, price: { input: 1_000_000n } });
    expect(catalog.get('a/unknown')).toBeUndefined();
  });

  it('makes no model of a wildcard whose catalog says a price, and nothing that bounds its output', () => {
    const prices: PriceCatalog = { find: () => ({ pricing: { input: '1', output: '2' } }) };
    const star: ModelOptions = { targets: ['loopback/*'], pricing: 'catalog' };
    expect(withModels({ 'a/*': star }, prices).get('a/boundless')).toBeUndefined();
    const bounded = withModels({ 'a/*': { ...star, maxOutputTokens: 100 } }, prices);
    expect(bounded.get('a/boundless')).toMatchObject({ maxOutputTokens: 100 });
  });

  it('finds a model as fast among many thousand', () => {
    const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`acme/${i}`, MODEL]));
    const few = { 'acme/1': MODEL, 'other/*': STAR };
    const time = (catalog: ReturnType<typeof withModels>): number =>
      cpuTime(() => {
        for (let i = 0; i < 200_000; i++) catalog.get('acme/1');
      });
    const [small, large] = [withModels(few), withModels(many)];
    // By far: one walk through 20,000 would take a thousand times as long.
    expect(time(large)).toBeLessThan(50 * Math.max(1, time(small)));
  });
});
