import OpenAI from 'openai';
import { afterEach, describe, expect, it } from 'vitest';

import { duration } from '../../../src/endpoints/admit-request.ts';
import { type ChatCompletionsRouterOptions, type CreateApiKey, MemoryStore } from '../../../src/index.ts';
import { clientsOf, type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerStream, completionBody, STREAM } from '../../helpers/provider.ts';

const MODEL = { targets: ['loopback/upstream-model'], pricing: PRICING, maxOutputTokens: 1000 };
let gateway: Gateway;

afterEach(async () => {
  await gateway.close();
});

/** A gateway of four models, and the ways to ask it with a key of this policy. */
async function startWith(
  policy: Omit<CreateApiKey, 'account'>,
  options: Partial<ChatCompletionsRouterOptions> = {},
): Promise<Pick<Gateway, 'key' | 'client' | 'fetch' | 'post'> & { readonly id: string }> {
  const ids = ['acme/fast', 'acme/slow', 'other/fast', 'other/slow'];
  const models = Object.fromEntries(ids.map((id) => [id, MODEL]));
  gateway = await startGateway({ models, ...options });
  const { key, id } = await gateway.router.keys.create({ account: 'acct', ...policy });
  return { ...clientsOf(gateway.baseURL, key), id };
}

const errorOf = async (response: Response): Promise<Record<string, unknown>> => {
  const { error } = (await response.json()) as { error: Record<string, unknown> };
  return { status: response.status, ...error };
};

describe('a key for some models', () => {
  it('is refused the others, and told which it may use', async () => {
    const { post } = await startWith({ models: ['other/slow', 'acme/*'] });
    expect((await post(QUESTION)).status).toBe(200);
    for (const model of ['other/fast', 'no/such']) {
      expect(await errorOf(await post({ ...QUESTION, model }))).toEqual({
        status: 403,
        message: `This key may not use the model "${model}"; it may use "acme/*", "other/slow".`,
        type: 'permission_error',
        param: 'model',
        code: 'model_not_allowed',
      });
    }
    expect((await post({ ...QUESTION, model: 'acme/none' })).status).toBe(404);
    expect(gateway.provider.received).toHaveLength(1);
  });

  it('is shown those alone', async () => {
    const { client, fetch } = await startWith({ models: ['*/slow'] });
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual(['acme/slow', 'other/slow']);
    expect((await client.models.retrieve('acme/slow')).id).toBe('acme/slow');
    expect((await fetch('/models/acme/fast')).status).toBe(404);
    const all = (await gateway.client.models.list()).data.map(({ id }) => id);
    expect(all).toEqual(['acme/fast', 'acme/slow', 'other/fast', 'other/slow']);
  });

  it('is shown a model that it may use by another name', async () => {
    const models = { 'acme/fast': { ...MODEL, aliases: ['fast'] }, 'acme/slow': MODEL };
    const { client, post } = await startWith({ models: ['fast'] }, { models });
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual(['acme/fast']);
    expect((await post({ ...QUESTION, model: 'fast' })).status).toBe(200);
    expect((await client.models.retrieve('fast')).id).toBe('acme/fast');
  });

  it('is shown an empty list, where there is none of them', async () => {
    const { fetch } = await startWith({ models: ['none/*'] });
    expect(await (await fetch('/models')).json()).toMatchObject({ object: 'list', data: [], total_count: 0 });
  });

  it('falls back to none of the others', async () => {
    const { post } = await startWith({ models: ['acme/*'] }, { clientRouting: true });
    expect(await errorOf(await post({ ...QUESTION, models: ['acme/slow', 'other/fast'] }))).toMatchObject({
      status: 403,
      message: expect.stringContaining('"other/fast"'),
    });
    expect((await post({ ...QUESTION, models: ['acme/slow'] })).status).toBe(200);
  });

  it('can be one of the host’s', async () => {
    const { post, fetch } = await startWith(
      {},
      { authenticate: () => ({ account: 'acct', models: ['acme/slow'] }) },
    );
    expect((await post(QUESTION)).status).toBe(403);
    const { data } = (await (await fetch('/models')).json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id)).toEqual(['acme/slow']);
  });

  it('is not let in by a host that does not say which', async () => {
    const { post } = await startWith({}, { authenticate: () => ({ account: 'acct', models: [] }) });
    expect((await post(QUESTION)).status).toBe(503);
    expect(String(gateway.errors[0]?.cause)).toContain('models of authenticate must be 1 to 100 model IDs');
  });
});

describe('a key that has expired', () => {
  it('is refused everywhere, also where it was in use', async () => {
    let aheadMs = 0;
    const store = new MemoryStore({ now: () => Date.now() + aheadMs });
    const expiresAt = new Date(Date.now() + 60_000);
    const { post, fetch, client } = await startWith({ expiresAt }, { store });
    expect((await fetch('/models')).status).toBe(200);
    expect((await post(QUESTION)).status).toBe(200);
    aheadMs = 60_000;
    expect(await errorOf(await post(QUESTION))).toEqual({
      status: 401,
      message: 'The API key has expired. Ask its operator to issue or extend one.',
      type: 'authentication_error',
      param: null,
      code: 'expired_api_key',
    });
    expect((await fetch('/models')).status).toBe(401);
    await expect(client.models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    expect(gateway.provider.received).toHaveLength(1);
  });
});

describe('a key with a markup', () => {
  it('pays it', async () => {
    const { post } = await startWith({ markup: { factor: '2', fee: '0.01' } });
    const settled = gateway.nextSettled();
    await post(QUESTION);
    expect(await settled).toMatchObject({ charged: '0.01009' });
  });
});

describe('a key whose budget is spent', () => {
  it('is refused with the budget, what is left of it, and when it resets', async () => {
    const { post } = await startWith({ budget: { amount: '0.0002', per: 'month' } }, { holdMode: 'clamp' });
    const settled = gateway.nextSettled();
    expect((await post(QUESTION)).status).toBe(200);
    await settled;
    const now = new Date();
    const resetsAt = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1)).toISOString();
    const response = await post(QUESTION);
    expect(response.headers.get('x-should-retry')).toBe('false');
    const { required, ...error } = await errorOf(response);
    expect(error).toEqual({
      status: 402,
      message: `This key's budget of $0.0002 for the month has $0.000155 left, but this request requires $${required as string}; it resets at ${resetsAt}.`,
      type: 'insufficient_quota',
      param: null,
      code: 'budget_exceeded',
      limited_by: 'key',
      left: '0.000155',
      budget: { amount: '0.0002', per: 'month', resets_at: resetsAt },
    });
  });

  it('gets no new beginning of what is for its lifetime', async () => {
    const { post } = await startWith({ budget: { amount: '0.00', per: 'lifetime' } });
    const error = await errorOf(await post(QUESTION));
    expect(error['message']).toMatch(
      /^This key's budget of \$0\.00 for its lifetime .* requires \$0\.\d+\.$/,
    );
    expect(error['budget']).toEqual({ amount: '0.00', per: 'lifetime' });
  });
});

describe('limits per minute', () => {
  it.each<[string, object]>([
    ['an answer', QUESTION],
    ['a stream', { ...QUESTION, stream: true }],
  ])('are on %s, as OpenAI says them', async (_what, question) => {
    const { post } = await startWith({ requestsPerMinute: 60, tokensPerMinute: 60_000 });
    if ('stream' in question) gateway.provider.script = answerStream(STREAM);
    const { headers } = await post(question);
    expect(headers.get('x-ratelimit-limit-requests')).toBe('60');
    expect(headers.get('x-ratelimit-remaining-requests')).toBe('59');
    expect(headers.get('x-ratelimit-reset-requests')).toBe('1s');
    expect(headers.get('x-ratelimit-limit-tokens')).toBe('60000');
    expect(Number(headers.get('x-ratelimit-remaining-tokens'))).toBeLessThan(60_000);
    expect(headers.get('x-ratelimit-reset-tokens')).toMatch(/^(\d+m)?[\d.]+m?s$/);
  });

  it('are on no answer for a key that has none, nor in place of a limit that it has not', async () => {
    const { post } = await startWith({ requestsPerMinute: 60 });
    const { headers } = await post(QUESTION);
    expect([...headers.keys()].filter((name) => name.startsWith('x-ratelimit'))).toEqual([
      'x-ratelimit-limit-requests',
      'x-ratelimit-remaining-requests',
      'x-ratelimit-reset-requests',
    ]);
    const free = await gateway.post(QUESTION);
    expect([...free.headers.keys()].filter((name) => name.startsWith('x-ratelimit'))).toEqual([]);
  });

  it('are on a refusal that has another reason', async () => {
    const { post } = await startWith({ requestsPerMinute: 60, budget: { amount: '0.00', per: 'day' } });
    const response = await post(QUESTION);
    expect(response.status).toBe(402);
    expect(response.headers.get('x-ratelimit-remaining-requests')).toBe('60');
  });

  it('refuse requests, and say when the next fits', async () => {
    const { post, client } = await startWith({ requestsPerMinute: 1 });
    await post(QUESTION);
    const response = await post(QUESTION);
    const after = Number(response.headers.get('retry-after-ms'));
    expect(after).toBeGreaterThan(50_000);
    expect(after).toBeLessThanOrEqual(60_000);
    expect(response.headers.get('retry-after')).toBe(String(Math.ceil(after / 1000)));
    expect(response.headers.get('x-ratelimit-remaining-requests')).toBe('0');
    expect(await errorOf(response)).toMatchObject({
      status: 429,
      code: 'requests_per_minute_exceeded',
      type: 'rate_limit_exceeded',
      message: `This key's limit of 1 requests per minute is reached; retry in ${after} ms.`,
    });
    await expect(client.chat.completions.create(QUESTION)).rejects.toBeInstanceOf(OpenAI.RateLimitError);
    expect(gateway.provider.received).toHaveLength(1);
  });

  it('refuse tokens, and say when the request fits', async () => {
    const { post } = await startWith({ tokensPerMinute: 20 });
    expect((await post(QUESTION)).status).toBe(200);
    const response = await post(QUESTION);
    const after = Number(response.headers.get('retry-after-ms'));
    expect(await errorOf(response)).toMatchObject({
      status: 429,
      code: 'tokens_per_minute_exceeded',
      message: `This key's limit of 20 tokens per minute is reached; retry in ${after} ms.`,
    });
  });

  it('are of requests at once, too', async () => {
    const { post } = await startWith({ concurrentRequests: 1 });
    let finish = (): void => {};
    gateway.provider.script = (response) => {
      finish = () => response.writeHead(200, { 'content-type': 'application/json' }).end(completionBody());
    };
    const arrived = gateway.provider.next();
    const first = post(QUESTION);
    await arrived;
    const refused = await post(QUESTION);
    expect(refused.headers.get('retry-after-ms')).toBe('1000');
    expect(await errorOf(refused)).toMatchObject({
      status: 429,
      code: 'too_many_concurrent_requests',
      message: "This key's limit of 1 concurrent requests is reached; wait for one to end.",
    });
    const settled = gateway.nextSettled();
    finish();
    expect((await first).status).toBe(200);
    await settled;
  });

  it.each([
    [0, '0s'],
    [1, '1ms'],
    [20, '20ms'],
    [999, '999ms'],
    [1000, '1s'],
    [8640, '8.64s'],
    [60_000, '1m0s'],
    [90_951, '1m30.951s'],
    [360_000, '6m0s'],
    [3_600_000, '1h0m0s'],
    [3_723_004, '1h2m3.004s'],
  ])('%s ms are written %s', (ms, written) => {
    expect(duration(ms)).toBe(written);
  });
});

describe('a change of a key', () => {
  it('counts from the next completion on, at every router', async () => {
    const { post, key, id } = await startWith({});
    const other = await startGateway({ store: gateway.store, models: { ...MODELS } });
    const elsewhere = clientsOf(other.baseURL, key);
    const { keys } = other.router;
    await post(QUESTION);
    expect((await elsewhere.post(QUESTION)).status).toBe(200);
    await keys.update('acct', id, { models: ['other/*'] });
    expect((await post(QUESTION)).status).toBe(403);
    await keys.update('acct', id, { models: null, markup: { fee: '0.5' } });
    const settled = gateway.nextSettled();
    expect((await post(QUESTION)).status).toBe(200);
    expect(await settled).toMatchObject({ charged: '0.500045' });
    await keys.update('acct', id, { requestsPerMinute: 7 });
    expect((await post(QUESTION)).headers.get('x-ratelimit-remaining-requests')).toBe('6');
    await other.close();
  });

  it('makes a rotated secret work at once, and the old one no longer than it may', async () => {
    let aheadMs = 0;
    const store = new MemoryStore({ now: () => Date.now() + aheadMs });
    const { post, id } = await startWith({}, { store });
    await post(QUESTION);
    const rotated = await gateway.router.keys.rotate('acct', id, { overlapMs: 60_000 });
    const renewed = clientsOf(gateway.baseURL, rotated?.key ?? '');
    expect((await renewed.post(QUESTION)).status).toBe(200);
    expect((await post(QUESTION)).status).toBe(200);
    aheadMs = 60_000;
    expect((await renewed.post(QUESTION)).status).toBe(200);
    expect(await errorOf(await post(QUESTION))).toMatchObject({ status: 401, code: 'invalid_api_key' });
    expect((await renewed.fetch('/models')).status).toBe(200);
  });

  it('ends the old secret at once without an overlap, at every router', async () => {
    const { post, id } = await startWith({});
    const other = await startGateway({ store: gateway.store });
    await post(QUESTION);
    await other.router.keys.rotate('acct', id);
    expect(await errorOf(await post(QUESTION))).toMatchObject({ status: 401, code: 'invalid_api_key' });
    await other.close();
  });
});

const MODELS = {
  'acme/fast': { targets: ['loopback/upstream-model'], pricing: PRICING, maxOutputTokens: 1000 },
};
