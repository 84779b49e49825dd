import { afterEach, describe, expect, it } from 'vitest';

import type { ModelOptions, ProviderOptions, Settled } from '../../src/index.ts';
import { findingsOf } from '../helpers/audit.ts';
import { type Gateway, startGateway } from '../helpers/gateway.ts';
import { answerJson, completionBody, type Script } from '../helpers/provider.ts';

/** USD 1 and 10 per million tokens, and at most 100 tokens written. */
const MODEL: ModelOptions = {
  targets: ['loopback/upstream-model'],
  pricing: { input: '1', output: '10' },
  contextWindow: 20_000,
  maxOutputTokens: 100,
};
const ASK = { model: 'acme/fast', messages: [{ role: 'user', content: 'Write for ever.' }] };

let gateway: Gateway;

async function start(
  model: Partial<ModelOptions> = {},
  { credits = '0.002', provider = {} }: { credits?: string; provider?: Partial<ProviderOptions> } = {},
): Promise<void> {
  const models = { 'acme/fast': { ...MODEL, ...model } };
  gateway = await startGateway({ models, provider }, undefined, credits);
}

afterEach(async () => {
  expect(await findingsOf(gateway.store)).toEqual([]);
  await gateway.close();
});

type Fields = Readonly<Record<string, unknown>>;

/** A server that reads these fields for its limit, the first that is there, and writes as much as it may: 5,000 tokens at most. */
function obeys(...fields: readonly string[]): Script {
  return (response, request) => {
    const asked = request.json as Fields;
    const limit = fields.map((field) => asked[field]).find((value) => typeof value === 'number');
    const n = typeof asked['n'] === 'number' ? asked['n'] : 1;
    const usage = { prompt_tokens: 20, completion_tokens: n * Math.min(limit ?? 5000, 5000) };
    return answerJson(completionBody({ usage }))(response, request);
  };
}

interface Paid extends Settled {
  readonly sent: Fields;
  readonly told: string | null;
}

async function ask(fields: Fields): Promise<Paid> {
  const settled = gateway.nextSettled();
  const response = await gateway.post({ ...ASK, ...fields });
  expect([response.status, await response.text()]).toMatchObject([200, expect.any(String)]);
  const sent = gateway.provider.received.at(-1)?.json as Fields;
  return { ...(await settled), sent, told: response.headers.get('x-ccr-max-tokens') };
}

describe('a limit above the model’s', () => {
  it.each([
    { max_tokens: 5000 },
    { max_completion_tokens: 5000 },
    { max_tokens: 5000, max_completion_tokens: 5000 },
    { max_tokens: 5000, max_completion_tokens: 50 },
    { max_tokens: 5000, n: 1 },
  ])('is lowered to it, and told: %j', async (fields) => {
    await start({}, { provider: { preset: 'fireworks' } });
    gateway.provider.script = obeys('max_tokens', 'max_completion_tokens');
    const paid = await ask(fields);
    // 20 tokens at a dollar and 100 at ten dollars a million; 5,000 would be 0.05002.
    expect(paid).toMatchObject({ charged: '0.00102', writtenOff: '0.00', told: '100' });
  });

  it('is lowered in its place, and no other byte changes', async () => {
    await start();
    const body = '{ "model":"acme/fast", "x":1.0, "max_tokens" : 5e3 , "messages":[] }';
    await (await gateway.post(body)).text();
    const sent = gateway.provider.received[0]?.body.toString();
    expect(sent).toBe(body.replace('5e3', '100').replace('acme/fast', 'upstream-model'));
  });

  it('is lowered for each model of a request by its own', async () => {
    await start({}, { credits: '5.00' });
    gateway.router.reload({
      models: {
        'acme/fast': MODEL,
        'acme/long': { ...MODEL, maxOutputTokens: 4000, targets: ['loopback/long'] },
      },
    });
    gateway.provider.script = obeys('max_tokens');
    expect(await ask({ max_tokens: 5000 })).toMatchObject({ told: '100' });
    expect(await ask({ max_tokens: 5000, model: 'acme/long' })).toMatchObject({ told: '4000' });
  });

  it('is not touched or told where it is low enough', async () => {
    await start();
    gateway.provider.script = obeys('max_tokens');
    expect(await ask({ max_tokens: 100 })).toMatchObject({ told: null, sent: { max_tokens: 100 } });
  });
});

describe('a limit in the field that the provider ignores', () => {
  it.each(['deepseek', 'llamacpp', 'mistral', 'ollama', 'together', 'zhipu'])(
    'is moved to the one that %s obeys',
    async (preset) => {
      await start({}, { provider: { preset } });
      gateway.provider.script = obeys('max_tokens');
      const paid = await ask({ max_completion_tokens: 10 });
      expect(paid).toMatchObject({ charged: '0.00012', writtenOff: '0.00', sent: { max_tokens: 10 } });
      expect(paid.sent).not.toHaveProperty('max_completion_tokens');
    },
  );

  it('is moved at xAI, where max_tokens does not count reasoning', async () => {
    await start({}, { provider: { preset: 'xai' } });
    gateway.provider.script = obeys('max_completion_tokens');
    const paid = await ask({ max_tokens: 10 });
    expect(paid).toMatchObject({ charged: '0.00012', sent: { max_completion_tokens: 10 } });
  });

  it('is no limit for the hold, where it is not known whether the server obeys it', async () => {
    await start({ maxOutputTokens: 5000 });
    gateway.provider.script = obeys('max_tokens');
    // The balance doesn't cover the model's 5,000 tokens: so it is made a limit that the server is sure to obey.
    const paid = await ask({ max_completion_tokens: 50 });
    expect(paid).toMatchObject({ charged: '0.00052', writtenOff: '0.00', sent: { max_tokens: 50 } });
  });

  it('is no limit for the hold, where reasoning comes on top of it', async () => {
    await start({ maxOutputTokens: 5000 }, { credits: '1.00', provider: { preset: 'qwen' } });
    let held = '';
    gateway.provider.script = async (response, request) => {
      ({ held } = await gateway.router.credits.balance('acct'));
      return obeys()(response, request);
    };
    expect(await ask({ max_tokens: 10 })).toMatchObject({ charged: '0.05002', writtenOff: '0.00' });
    expect(Number(held)).toBeGreaterThanOrEqual(0.05002);
  });
});

describe('a request without a limit', () => {
  it('is sent without one, unless the model says otherwise', async () => {
    await start({ maxOutputTokens: 5000 }, { credits: '1.00' });
    const { sent, told } = await ask({});
    expect(told).toBeNull();
    expect(Object.keys(sent)).toEqual(['model', 'messages']);
  });

  it('gets the model’s with enforceOutputLimit', async () => {
    await start({ enforceOutputLimit: 'insert' });
    gateway.provider.script = obeys('max_tokens');
    const paid = await ask({});
    expect(paid).toMatchObject({ charged: '0.00102', writtenOff: '0.00', told: '100' });
  });

  it.each([
    ['deepseek', 'max_tokens'],
    ['openai', 'max_completion_tokens'],
    ['vllm', 'max_completion_tokens'],
  ])('gets it in the field of %s: %s', async (preset, field) => {
    await start({ enforceOutputLimit: 'insert' }, { provider: { preset } });
    const { sent } = await ask({ max_tokens: null });
    expect(sent[field]).toBe(100);
  });

  it('gets no more than the prompt leaves of the context window', async () => {
    const long = [{ role: 'user', content: 'a'.repeat(40_000) }];
    await start({ enforceOutputLimit: 'insert', maxOutputTokens: 16_000 }, { credits: '5.00' });
    // Four characters a token are 10,000 tokens, and the message and its names a few more.
    const { sent, told } = await ask({ messages: long });
    expect(sent['max_tokens']).toBe(Number(told));
    expect(Number(told)).toBeLessThan(10_000);
    expect(Number(told)).toBeGreaterThan(9900);
  });
});

describe('another name for a limit or a number of answers', () => {
  it.each([
    'n_predict',
    'num_predict',
    'max_new_tokens',
    'max_output_tokens',
    'best_of',
    'n_cmpl',
    'candidateCount',
  ])('is refused by its name, anywhere: %s', async (field) => {
    await start();
    for (const body of [{ [field]: 128 }, { extra_body: { [field]: 128 } }]) {
      const response = await gateway.post({ ...ASK, ...body });
      expect(response.status).toBe(400);
      const { error } = (await response.json()) as { error: { code: string; param: string } };
      expect(error.code).toBe('unsupported_parameter');
      expect(error.param).toContain(field);
    }
    expect(gateway.provider.received).toEqual([]);
  });
});
