import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { BodyRules, ProviderOptions } from '../../../src/index.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, answerStream, type Provider, startProvider, STREAM } from '../../helpers/provider.ts';

const BUSY = answerJson('{"error":{"message":"busy"}}', 503);

let first: Provider;
let second: Provider;
let gateway: Gateway;

beforeEach(async () => {
  [first, second] = await Promise.all([startProvider(), startProvider()]);
});

afterEach(async () => {
  expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
  await gateway.close();
  await first.close();
  await second.close();
});

interface Rules {
  readonly first?: BodyRules;
  readonly second?: BodyRules;
  /** Of the first target's provider. */
  readonly ofProvider?: BodyRules;
  readonly provider?: Partial<ProviderOptions>;
  readonly credits?: string;
  readonly holdMode?: 'strict';
}

/** `acme/fast` at two providers, and `acme/plain` at the first without rules of its own. */
async function start(rules: Rules): Promise<void> {
  const model = { pricing: PRICING, contextWindow: 8192, maxOutputTokens: 1000 };
  gateway = await startGateway(
    {
      retries: { perTarget: 0 },
      ...(rules.holdMode && { holdMode: rules.holdMode }),
      providers: {
        first: {
          baseURL: first.baseURL,
          apiKey: 'sk-1',
          ...rules.provider,
          ...(rules.ofProvider && { body: rules.ofProvider }),
        },
        second: { baseURL: second.baseURL, apiKey: 'sk-2' },
      },
      models: {
        'acme/fast': {
          ...model,
          aliases: ['fast'],
          targets: [
            { provider: 'first', model: 'one', ...(rules.first && { body: rules.first }) },
            { provider: 'second', model: 'two', ...(rules.second && { body: rules.second }) },
          ],
        },
        'acme/plain': { ...model, targets: ['second/plain'] },
      },
    },
    undefined,
    rules.credits,
  );
}

function bodies({ received }: Provider): string[] {
  return received.map(({ body }) => body.toString());
}

describe('body rules of a target', () => {
  it('make of one request what each of two families wants', async () => {
    first.script = BUSY;
    await start({
      first: {
        rename: { max_tokens: 'max_completion_tokens' },
        drop: ['temperature'],
        set: { store: false },
      },
      second: { rename: { max_completion_tokens: 'max_tokens' }, default: { top_p: 0.9 } },
    });
    const response = await gateway.post(
      '{"model":"fast","messages":[{"role":"user","content":"Hi"}], "temperature": 0.5, "max_tokens" : 20}',
    );
    expect(response.status).toBe(200);
    expect(bodies(first)).toEqual([
      '{"model":"one","store":false,"messages":[{"role":"user","content":"Hi"}], "max_completion_tokens" : 20}',
    ]);
    expect(bodies(second)).toEqual([
      '{"model":"two","top_p":0.9,"messages":[{"role":"user","content":"Hi"}], "temperature": 0.5, "max_tokens" : 20}',
    ]);
  });

  it('come beside those of its provider, and win for the fields that both name', async () => {
    await start({
      ofProvider: { set: { store: false, user: 'operator' }, drop: ['seed'] },
      first: { set: { user: 'target' }, default: { seed: 7 } },
    });
    await gateway.post(QUESTION);
    expect(JSON.parse(bodies(first)[0] ?? '')).toEqual({
      ...QUESTION,
      model: 'one',
      store: false,
      user: 'target',
      seed: 7,
    });
  });

  it('work in streams, beside what asks for usage', async () => {
    first.script = answerStream(STREAM);
    await start({ first: { set: { store: false } } });
    const stream = await gateway.client.chat.completions.create({ ...QUESTION, stream: true, store: true });
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    expect(text).not.toBe('');
    expect(bodies(first)[0]).toContain('"store":false');
    expect(bodies(first)[0]).toContain('"stream_options":{"include_usage":true}');
    expect(JSON.parse(bodies(first)[0] ?? '')).toMatchObject({ store: false, stream: true });
  });

  it('find fields of a body that comes in many chunks', async () => {
    await start({ first: { drop: ['metadata'], set: { store: false } } });
    const content = 'x'.repeat(700_000);
    const body = { metadata: { a: 'é'.repeat(90_000) }, ...QUESTION, messages: [{ role: 'user', content }] };
    const chunks = JSON.stringify({ ...body, store: { deep: [1, 2] } }).match(/[^]{1,60000}/g) ?? [];
    const response = await gateway.fetch('/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: ReadableStream.from(chunks.map((chunk) => Buffer.from(chunk))),
      duplex: 'half',
    });
    expect(response.status).toBe(200);
    const { metadata: _, ...rest } = body;
    expect(JSON.parse(bodies(first)[0] ?? '')).toEqual({ ...rest, model: 'one', store: false });
  });

  it('count for the models of a wildcard, and change with a reload', async () => {
    await start({});
    const providers = { first: { baseURL: first.baseURL, body: { set: { store: false } } } };
    const model = { targets: [{ provider: 'first', model: '*', body: { drop: ['seed'] } }] };
    gateway.router.reload({ providers, models: { 'acme/*': { ...model, pricing: 'free' } } });
    await gateway.post({ ...QUESTION, seed: 1 });
    gateway.router.reload({ providers: { first: { ...providers.first, body: { set: { store: true } } } } });
    await gateway.post({ ...QUESTION, seed: 1 });
    expect(bodies(first).map((body): unknown => JSON.parse(body))).toEqual([
      { ...QUESTION, model: 'fast', store: false },
      { ...QUESTION, model: 'fast', store: true },
    ]);
  });

  it('call functions once for each attempt, with the caller', async () => {
    const calls: unknown[] = [];
    const made = (caller: object): string => {
      calls.push(caller);
      return `call ${calls.length}`;
    };
    await start({
      first: { set: { safety_identifier: made } },
      second: { set: { safety_identifier: made } },
    });
    first.script = BUSY;
    await gateway.post({ ...QUESTION, model: 'fast', safety_identifier: 'forged' });
    const [key] = await gateway.router.keys.list('acct');
    const caller = { account: 'acct', key: key?.id, model: 'acme/fast' };
    expect(calls).toEqual([caller, caller]);
    expect(JSON.parse(bodies(first)[0] ?? '')).toMatchObject({ safety_identifier: 'call 1' });
    expect(JSON.parse(bodies(second)[0] ?? '')).toMatchObject({ safety_identifier: 'call 2' });
  });
});

describe('a rule whose value can’t be had', () => {
  it.each<[string, () => never, RegExp]>([
    [
      'throws',
      broken(() => {
        throw new Error('no salt');
      }),
      /body\.set\.user threw$/,
    ],
    ['returns no JSON', broken(() => Number.NaN), /body\.set\.user returned a value that isn't JSON$/],
    [
      'returns a promise',
      broken(() => Promise.reject(new Error('late'))),
      /returned a value that isn't JSON$/,
    ],
    ['returns too much', broken(() => 'x'.repeat(511)), /returned a value of more than 512 bytes$/],
  ])('fails the attempt where it %s, and the next target is asked', async (_, user, message) => {
    await start({ first: { set: { user } } });
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(200);
    expect(first.received).toEqual([]);
    expect(second.received).toHaveLength(1);
    expect(gateway.errors.map((error) => error.message)).toEqual([expect.stringMatching(message)]);
  });

  it('costs nothing where no other target is left', async () => {
    const user = broken(() => 1n);
    await start({ first: { set: { user } }, second: { set: { user } } });
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(502);
    expect(await response.json()).toMatchObject({
      error: { code: 'upstream_misconfigured', type: 'upstream_error' },
    });
    expect([first.received, second.received]).toEqual([[], []]);
    expect(await gateway.router.credits.balance('acct')).toMatchObject({ balance: '5.00', held: '0.00' });
  });
});

describe('a request that could be read in two ways', () => {
  it('is refused before anything is sent, whichever target the rule is of', async () => {
    await start({ second: { rename: { max_tokens: 'max_completion_tokens' } } });
    const response = await gateway.post({ ...QUESTION, max_tokens: 5, max_completion_tokens: 6 });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { code: 'ambiguous_parameter', param: 'max_tokens' },
    });
    expect([first.received, second.received]).toEqual([[], []]);
  });

  it('is no matter for a model whose targets have no such rule', async () => {
    await start({ first: { rename: { max_tokens: 'max_completion_tokens' }, set: { store: false } } });
    const response = await gateway.post({
      ...QUESTION,
      model: 'acme/plain',
      max_tokens: 5,
      max_completion_tokens: 6,
      Store: 1,
      extra_body: { store: true },
    });
    expect(response.status).toBe(200);
  });
});

describe('what is held', () => {
  it('goes by the client’s limit under the name that it gets, which the operator says is obeyed', async () => {
    // The model's 1,000 tokens of output would be 0.003.
    await start({
      first: { rename: { max_completion_tokens: 'max_tokens' } },
      second: { rename: { max_completion_tokens: 'max_tokens' } },
      credits: '0.001',
      holdMode: 'strict',
    });
    const response = await gateway.post({ ...QUESTION, max_completion_tokens: 20 });
    expect(response.status).toBe(200);
    expect(JSON.parse(bodies(first)[0] ?? '')).toEqual({ ...QUESTION, model: 'one', max_tokens: 20 });
  });

  it('lowers a limit under the name that it gets, and never leaves both', async () => {
    const rename = { max_tokens: 'max_completion_tokens' };
    await start({ first: { rename }, second: { rename }, credits: '0.001' });
    for (const limit of [{ max_tokens: 900 }, { max_tokens: null }, { max_completion_tokens: 900 }, {}]) {
      const response = await gateway.post({ ...QUESTION, ...limit });
      expect(response.status).toBe(200);
      const told = Number(response.headers.get('x-ccr-max-tokens'));
      expect(told).toBeGreaterThan(0);
      expect(told).toBeLessThan(400);
      const sent: Record<string, unknown> = JSON.parse(bodies(first).at(-1) ?? '');
      expect(sent).toEqual({ ...QUESTION, model: 'one', max_completion_tokens: told });
    }
  });

  it('covers what rules add to the prompt', async () => {
    const context = 'x'.repeat(3000);
    await start({ first: { set: { documents: [context] } }, credits: '0.002' });
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(402);
    expect(first.received).toEqual([]);
  });
});

function broken(made: () => unknown): () => never {
  return made as () => never;
}
