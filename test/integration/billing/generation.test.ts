import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { MemoryStore } from '../../../src/index.ts';
import { createUsageQueries } from '../../../src/ledger/operations/usage-queries.ts';
import { requestId } from '../../contracts/ledger-fixture.ts';
import { clientsOf, type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  beginStream,
  completionBody,
  type Script,
  STREAM,
  text,
  USAGE,
} from '../../helpers/provider.ts';
import { settlement } from '../../helpers/redis-ledger.ts';

let gateway: Gateway;

beforeEach(async () => {
  gateway = await startGateway();
});

afterEach(async () => {
  await gateway.close();
});

/** Asks, and returns the id of the answer. */
async function ask(script: Script, more: object = {}): Promise<string> {
  gateway.provider.script = script;
  const settled = gateway.nextSettled();
  const response = await gateway.post({ ...QUESTION, ...more });
  await response.text().catch(() => '');
  await settled;
  return response.headers.get('x-request-id') ?? '';
}

interface Told {
  readonly data: Readonly<Record<string, unknown>>;
  readonly error: { readonly code: string; readonly message: string };
}

async function lookUp(id: string, path = `/generation?id=${id}`): Promise<{ status: number; body: Told }> {
  const response = await gateway.fetch(path);
  return { status: response.status, body: (await response.json()) as Told };
}

describe('GET /generation', () => {
  it('tells what became of an answer, in the members that clients of OpenRouter and Vercel read', async () => {
    const id = await ask(answerJson(completionBody()));
    const { status, body } = await lookUp(id);
    expect(status).toBe(200);
    expect(body).toEqual({
      data: {
        id,
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
        api_type: 'completions',
        model: 'acme/fast',
        provider_name: 'loopback',
        is_byok: false,
        streamed: false,
        cancelled: false,
        finish_reason: 'stop',
        native_finish_reason: 'stop',
        ending: 'finished',
        total_cost: 0.000045,
        usage: 0.000045,
        charged: '0.000045',
        upstream_inference_cost: 0,
        latency: expect.any(Number),
        generation_time: expect.any(Number),
        tokens_prompt: 9,
        tokens_completion: 12,
        native_tokens_prompt: 9,
        native_tokens_completion: 12,
        native_tokens_reasoning: 0,
        native_tokens_cached: 0,
        native_tokens_cache_creation: 0,
        billable_web_search_calls: 0,
        usage_source: 'upstream',
        data_region: 'unknown',
        origin: '',
        app_id: null,
        cache_discount: null,
        external_user: null,
        http_referer: null,
        moderation_latency: null,
        native_tokens_completion_images: null,
        num_fetches: null,
        num_input_audio_prompt: null,
        num_media_completion: null,
        num_media_prompt: null,
        num_search_results: null,
        preset_id: null,
        provider_responses: null,
        router: null,
        service_tier: null,
        upstream_id: null,
        user_agent: null,
        web_search_engine: null,
        workspace_id: null,
      },
    });
    const { latency, generation_time } = body.data;
    expect(Number(latency)).toBeLessThanOrEqual(Number(generation_time));
  });

  it('tells of a stream', async () => {
    const id = await ask(answerStream(STREAM), { stream: true });
    expect((await lookUp(id)).body.data).toMatchObject({ streamed: true, finish_reason: 'stop' });
  });

  it('never tells what the provider bills', async () => {
    await gateway.close();
    gateway = await startGateway({
      models: {
        'acme/fast': {
          targets: [{ provider: 'loopback', model: 'upstream-model', cost: { input: '7', output: '7' } }],
          pricing: { input: '1', output: '3' },
          contextWindow: 8192,
          maxOutputTokens: 1000,
        },
      },
    });
    const id = await ask(answerJson(completionBody()));
    const generation = await gateway.router.usage.generation('acct', id);
    expect(generation).toMatchObject({
      charged: '0.000045',
      cost: '0.000147',
      upstreamModel: 'upstream-model',
    });
    expect(JSON.stringify((await lookUp(id)).body)).not.toMatch(/0\.000147|upstream-model/);
  });

  it('tells of a request that its provider refused, which costs nothing', async () => {
    const id = await ask(answerJson('{"error":{"message":"too long"}}', 400));
    expect((await lookUp(id)).body.data).toMatchObject({
      model: 'acme/fast',
      finish_reason: 'error',
      native_finish_reason: null,
      is_byok: false,
      total_cost: 0,
      tokens_prompt: 0,
      usage_source: 'none',
    });
  });

  it('tells of a client that left', async () => {
    const leaving = new AbortController();
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(text('Hello there'));
    };
    const settled = gateway.nextSettled();
    const response = await gateway.post({ ...QUESTION, stream: true }, { signal: leaving.signal });
    await response.body?.getReader().read();
    leaving.abort();
    await settled;
    const { body } = await lookUp(response.headers.get('x-request-id') ?? '');
    expect(body.data).toMatchObject({
      cancelled: true,
      ending: 'client_gone',
      finish_reason: 'cancelled',
      usage_source: 'estimated',
    });
    expect(body.data['total_cost']).toBeGreaterThan(0);
  });

  it('tells of tokens that were written to a cache, and of searches', async () => {
    const usage = {
      ...USAGE,
      prompt_tokens_details: { cached_tokens: 2, cache_write_tokens: 5 },
      server_tool_use: { web_search_requests: 3 },
    };
    const id = await ask(answerJson(completionBody({ usage })));
    expect((await lookUp(id)).body.data).toMatchObject({
      tokens_prompt: 9,
      native_tokens_cached: 2,
      native_tokens_cache_creation: 5,
      billable_web_search_calls: 3,
    });
  });

  it('says that the key was the client’s own, and not what the provider bills for that', async () => {
    await gateway.close();
    gateway = await startGateway({
      authenticate: () => ({ account: 'acct', upstreamKeys: { loopback: 'sk-own' } }),
    });
    const id = await ask(answerJson(completionBody()));
    expect((await lookUp(id)).body.data).toMatchObject({ is_byok: true, upstream_inference_cost: null });
  });

  it('says that a reason to finish is unknown, where the provider gave none', async () => {
    const choices = [{ index: 0, message: { role: 'assistant', content: 'Hello there.' } }];
    const id = await ask(answerJson(completionBody({ choices })));
    expect((await lookUp(id)).body.data).toMatchObject({
      finish_reason: 'unknown',
      native_finish_reason: null,
    });
  });

  it('says of a request that runs that it does, and that asking again helps', async () => {
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(text('Hello'));
    };
    const response = await gateway.post({ ...QUESTION, stream: true });
    const id = response.headers.get('x-request-id') ?? '';
    const told = await gateway.fetch(`/generation?id=${id}`);
    expect(told.status).toBe(404);
    expect(told.headers.get('x-should-retry')).toBe('true');
    expect(told.headers.get('retry-after')).toBe('1');
    expect(await told.json()).toMatchObject({
      error: { code: 'generation_running', param: 'id', message: expect.stringContaining(id) },
    });
    expect(await gateway.router.usage.generation('acct', id)).toMatchObject({
      state: 'running',
      model: 'acme/fast',
      charged: '0.00',
      held: expect.stringMatching(/^0\.00[1-9]/),
    });
    await response.body?.cancel();
  });

  it('waits for a charge that is on its way', async () => {
    let release = (): void => {};
    const settle = gateway.store.settle.bind(gateway.store);
    gateway.store.settle = async (command) => {
      await new Promise<void>((resolve) => (release = resolve));
      return settle(command);
    };
    gateway.provider.script = answerJson(completionBody());
    const response = await gateway.post(QUESTION);
    await response.text();
    const looked = lookUp(response.headers.get('x-request-id') ?? '');
    const request = gateway.store.request.bind(gateway.store);
    await new Promise<void>((resolve) => {
      gateway.store.request = (...args) => {
        resolve();
        return request(...args);
      };
    });
    release();
    expect(await looked).toMatchObject({ status: 200, body: { data: { charged: '0.000045' } } });
  });

  it("is of the caller's own account: of others it does not say whether there is such a request", async () => {
    const id = await ask(answerJson(completionBody()));
    const { key } = await gateway.router.keys.create({ account: 'other', name: 'theirs' });
    const theirs = await fetch(`${gateway.baseURL}/generation?id=${id}`, {
      headers: { authorization: `Bearer ${key}` },
    });
    expect(theirs.status).toBe(404);
    const { error } = (await theirs.json()) as Told;
    expect(error).toMatchObject({ code: 'generation_not_found', param: 'id' });
    expect(error.message).toContain('available for 24 hours');
  });

  it("answers another key of the caller's account", async () => {
    const id = await ask(answerJson(completionBody()));
    const { key } = await gateway.router.keys.create({ account: 'acct', name: 'second' });
    const headers = { authorization: `Bearer ${key}` };
    expect((await fetch(`${gateway.baseURL}/generation?id=${id}`, { headers })).status).toBe(200);
  });

  it('shows a key with limits its own requests alone, as in usage', async () => {
    const id = await ask(answerJson(completionBody()));
    const { key } = await gateway.router.keys.create({ account: 'acct', requestsPerMinute: 60 });
    const limited = clientsOf(gateway.baseURL, key);
    const others = await limited.fetch(`/generation?id=${id}`);
    expect([others.status, ((await others.json()) as Told).error.code]).toEqual([
      404,
      'generation_not_found',
    ]);
    const settled = gateway.nextSettled();
    const answer = await limited.post(QUESTION);
    await answer.text();
    await settled;
    const own = await limited.fetch(`/generation?id=${answer.headers.get('x-request-id')}`);
    expect(own.status).toBe(200);
  });

  it.each(['chatcmpl-123', '0'.repeat(19), '%F0%9F%98%80', 'a'.repeat(2000)])(
    'knows nothing of what is no id of ours: %.20s',
    async (id) => {
      const { status, body } = await lookUp(id);
      expect([status, body.error.code]).toEqual([404, 'generation_not_found']);
    },
  );

  it.each(['/generation', '/generation?id=', '/generation?other=1'])('needs an id: %s', async (path) => {
    const { status, body } = await lookUp('', path);
    expect(status).toBe(400);
    expect(body.error).toMatchObject({ code: 'missing_required_parameter', param: 'id' });
  });

  it('forgets a request a day after its end, without a log', async () => {
    await gateway.close();
    let now = Date.now();
    const store = new MemoryStore({ now: () => now });
    gateway = await startGateway({ store, requestLogDays: 0 });
    const id = await ask(answerJson(completionBody()));
    now += 25 * 60 * 60 * 1000;
    await store.sweep(100);
    expect((await lookUp(id)).status).toBe(404);
  });

  it('takes GET alone', async () => {
    const response = await gateway.fetch('/generation?id=1', { method: 'POST' });
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS']);
  });
});

describe('router.usage.generation', () => {
  it('tells what the journal has of a request', async () => {
    const id = await ask(answerJson(completionBody()));
    expect(await gateway.router.usage.generation('acct', id)).toEqual({
      id,
      account: 'acct',
      key: expect.any(String),
      state: 'settled',
      createdAt: expect.any(Date),
      model: 'acme/fast',
      provider: 'loopback',
      upstreamModel: 'upstream-model',
      streamed: false,
      byok: false,
      ending: 'finished',
      finishReason: 'stop',
      firstByteMs: expect.any(Number),
      durationMs: expect.any(Number),
      usage: {
        promptTokens: 9,
        cachedTokens: 0,
        cacheWriteTokens: 0,
        completionTokens: 12,
        reasoningTokens: 0,
        webSearches: 0,
        source: 'upstream',
      },
      charged: '0.000045',
    });
  });

  it('tells all that a charge in parts comes to, with its usage', async () => {
    const store = new MemoryStore();
    const usage = createUsageQueries(store, Date.now);
    const charge = { ...settlement(1, 30n), requestId: requestId(1, Date.now()), inParts: true };
    await store.grant({ account: 'acme', id: 'g1', amount: 10n });
    await store.settle(charge);
    await store.grant({ account: 'acme', id: 'g2', amount: 15n });
    await store.settle(charge);
    expect(await usage.generation('acme', charge.requestId)).toMatchObject({
      state: 'settled',
      model: 'some/model',
      ending: 'finished',
      usage: { promptTokens: 9, completionTokens: 12 },
      charged: '0.000000025',
    });
  });

  it('is reported for a voided request, as far as its record goes', async () => {
    const id = await ask(answerJson('{"error":{"message":"no"}}', 500));
    expect(await gateway.router.usage.generation('acct', id)).toMatchObject({
      state: 'voided',
      model: 'acme/fast',
      charged: '0.00',
    });
  });

  it('refuses what can be no id', async () => {
    await expect(gateway.router.usage.generation('acct', 'x')).rejects.toThrow(
      'requestId must be 19 characters of 0-9 a-z, got "x"',
    );
    await expect(gateway.router.usage.generation('a b', 'x')).rejects.toThrow('account must be');
    const id = await ask(answerJson(completionBody()));
    expect(await gateway.router.usage.generation('other', id)).toBeUndefined();
  });
});
