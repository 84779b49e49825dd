import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { IS_FULL } from '../helpers/runs.ts';
import { type AnyGateway, QUESTION, untilStill } from '../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  beginStream,
  completionBody,
  DONE,
  event,
  STREAM,
  text,
  USAGE,
  USAGE_EVENT,
  withNullUsage,
} from '../helpers/provider.ts';
import type { MountFacts } from './mount.ts';

/** The mount that the router's own decisions are tested on in each run. */
const REFERENCE = 'node:http';

/** Of each test: no test framework's default is enough where 48 MB are read. */
export const TIMEOUT_MS = 30_000;

/**
 * What `describeRouter` asks of a mount, asked of a gateway that the caller starts, with $5.00 for an account of its own.
 *
 * What the router decides before any mount is repeated on each of them only in `npm run test:all`, and in the
 * published suite.
 */
export function describeGateway(
  name: string,
  start: () => Promise<AnyGateway>,
  facts: MountFacts = {},
): void {
  describe(`the router on ${name}`, { timeout: TIMEOUT_MS }, () => {
    let gateway: AnyGateway | undefined;
    const current = (): AnyGateway => gateway!;

    beforeEach(async () => {
      gateway = await start();
    });

    afterEach(async () => {
      await gateway?.close();
    });

    describeTransport(current, facts);
    if (IS_FULL || name === REFERENCE) describeDecisions(current);
  });
}

/** What a server or a framework between the router and its client can break. */
function describeTransport(
  current: () => AnyGateway,
  { rendersBodies = false, addsCharset = false, ignoresBackPressure = false, keepsHeads = false }: MountFacts,
): void {
  const charset = addsCharset ? '; charset=utf-8' : '';

  it('finds a model whose ID has a slash, encoded or not', async () => {
    const gateway = current();
    const encoded = await gateway.client.models.retrieve('acme/fast');
    const raw = await gateway.fetch('/models/acme/fast');
    expect(encoded.id).toBe('acme/fast');
    expect(await raw.json()).toEqual(encoded);
  });

  it('answers a completion with the bytes of the provider', async () => {
    const gateway = current();
    const body = completionBody({ unknown: { big: 1 }, odd: '\u2028' }).replace(
      '"big":1',
      '"big":12345678901234567890',
    );
    gateway.provider.script = answerJson(body);
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe(`application/json${charset}`);
    expect(response.headers.get('x-request-id')).toMatch(/^[\da-z]{10,}$/);
    expect(await response.text()).toBe(body);
  });

  it('sends the bytes of the client to the provider, with the name of the model replaced', async () => {
    const gateway = current();
    const body =
      '{ "messages": [], "seed": 12345678901234567890, "x": 1.0, "x": 2, "model":"acme\\/fast","e":"\\u00e9" }';
    await gateway.post(body);
    const left = rendersBodies ? JSON.stringify(JSON.parse(body)) : body;
    expect(gateway.provider.received[0]?.body.toString()).toBe(
      left.replace(/"acme\\?\/fast"/, '"upstream-model"'),
    );
  });

  it('streams to the official client and charges the usage that it asked for itself', async () => {
    const gateway = current();
    gateway.provider.script = answerStream(STREAM);
    const settled = gateway.nextSettled();
    let content = '';
    for await (const chunk of await gateway.client.chat.completions.create({ ...QUESTION, stream: true })) {
      content += chunk.choices[0]?.delta.content ?? '';
    }
    expect(content).toBe('Hello there.');
    expect(await settled).toMatchObject({
      charged: '0.000045',
      usageSource: 'upstream',
      ending: 'finished',
    });
    expect(JSON.parse(String(gateway.provider.received[0]?.body))).toMatchObject({
      stream_options: { include_usage: true },
    });
  });

  it('passes a stream byte for byte, without the usage that the client did not ask for', async () => {
    const gateway = current();
    const stream = [': hello\r\n\r\n', ...STREAM.slice(0, -1), ': bye\n\n', DONE];
    gateway.provider.script = answerStream(withNullUsage(stream));
    const response = await gateway.post({ ...QUESTION, stream: true });
    expect(await response.text()).toBe(stream.filter((piece) => piece !== USAGE_EVENT).join(''));
  });

  it('hands on each chunk before the next one is there', async () => {
    const gateway = current();
    let heard: () => void = () => {};
    gateway.provider.script = async (response) => {
      beginStream(response);
      for (const piece of [text('Hello'), text(' there'), text('.', 'stop')]) {
        const hearing = new Promise<void>((resolve) => (heard = resolve));
        response.write(piece);
        await hearing;
      }
      response.end(USAGE_EVENT + DONE);
    };
    let content = '';
    for await (const chunk of await gateway.client.chat.completions.create({ ...QUESTION, stream: true })) {
      content += chunk.choices[0]?.delta.content ?? '';
      heard();
    }
    expect(content).toBe('Hello there.');
  });

  it('sends the head of a stream before its first event, marked against caches and compressors', async () => {
    const gateway = current();
    const { promise: gone, resolve: go } = Promise.withResolvers<void>();
    gateway.provider.script = async (response) => {
      beginStream(response);
      await gone;
      response.end(STREAM.join(''));
    };
    const arrived = gateway.provider.next();
    const responding = gateway.post({ ...QUESTION, stream: true });
    await arrived;
    // The first event is sent once the head is there, but where that waits for it.
    const response = keepsHeads ? undefined : await responding;
    go();
    const { headers, body } = response ?? (await responding);
    expect(headers.get('content-type')).toBe(`text/event-stream${charset}`);
    expect(headers.get('cache-control')).toBe('no-cache, no-transform');
    await body?.cancel();
  });

  it('closes the connection to the provider when the client leaves in mid-stream, and charges what was sent', async () => {
    const gateway = current();
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(text('Hello there, dear reader.'));
    };
    const settled = gateway.nextSettled();
    const stream = await gateway.client.chat.completions.create({ ...QUESTION, stream: true });
    for await (const _ of stream) break;
    await gateway.provider.received[0]!.aborted;
    expect(await settled).toMatchObject({ ending: 'client_gone', usageSource: 'estimated', voided: false });
  });

  it('closes the connection to the provider when the client leaves before the answer begins', async () => {
    const gateway = current();
    gateway.provider.script = () => {};
    const arrived = gateway.provider.next();
    const controller = new AbortController();
    const settled = gateway.nextSettled();
    const failed = gateway.client.chat.completions
      .create(QUESTION, { signal: controller.signal })
      .catch(() => 'left');
    const request = await arrived;
    controller.abort();
    expect(await failed).toBe('left');
    await request.aborted;
    expect((await settled).ending).toBe('client_gone');
  });

  it('never lets a stream that was cut look finished', async () => {
    const gateway = current();
    const { promise: heard, resolve: hear } = Promise.withResolvers<void>();
    gateway.provider.script = async (response) => {
      beginStream(response);
      response.write(text('Hello'));
      await heard;
      response.destroy();
    };
    const settled = gateway.nextSettled();
    const stream = await gateway.client.chat.completions.create({ ...QUESTION, stream: true });
    const read = async (): Promise<void> => {
      for await (const _ of stream) hear();
    };
    await expect(read()).rejects.toThrow('closed the connection before its answer was complete');
    expect((await settled).ending).toBe('upstream_cut');
  });

  it('resets the connection when a stream is cut inside an event', async () => {
    const gateway = current();
    const { promise: heard, resolve: hear } = Promise.withResolvers<void>();
    gateway.provider.script = async (response) => {
      beginStream(response);
      response.write(text('Hello') + text(' there').slice(0, -20));
      await heard;
      response.destroy();
    };
    const response = await gateway.post({ ...QUESTION, stream: true });
    hear();
    await expect(response.text()).rejects.toThrow('terminated');
  });

  it('stops the provider while the client does not read', async () => {
    const gateway = current();
    let sent = 0;
    const piece = text('x'.repeat(65_536));
    gateway.provider.script = async (response) => {
      beginStream(response);
      while (!response.destroyed && sent < 48e6) {
        sent += piece.length;
        if (!response.write(piece)) await new Promise((resolve) => response.once('drain', resolve));
      }
    };
    const response = await gateway.post({ ...QUESTION, stream: true });
    if (ignoresBackPressure) await vi.waitUntil(() => sent > 32e6, { timeout: 20_000 });
    else expect(await untilStill(gateway, () => sent)).toBeLessThan(32e6);
    await response.body?.cancel();
  });

  it('takes a slash at the end of a path, and a query, for nothing', async () => {
    const gateway = current();
    for (const path of [
      '/models/',
      '/models?limit=1',
      '/models/?limit=1',
      '/models/acme/fast/',
      '/credits/',
    ]) {
      expect((await gateway.fetch(path)).status, path).toBe(200);
    }
    const asked = {
      method: 'POST',
      body: JSON.stringify(QUESTION),
      headers: { 'content-type': 'application/json' },
    };
    for (const path of ['/chat/completions/', '/chat/completions?api-version=1']) {
      expect((await gateway.fetch(path, asked)).status, path).toBe(200);
    }
  });

  it('says in the shape of OpenAI what a request lacks', async () => {
    const gateway = current();
    for (const body of [{}, { model: 'acme/fast' }, { messages: [] }, { model: 7, messages: [] }]) {
      const response = await gateway.post(body);
      expect(response.status).toBe(400);
      expect(response.headers.get('content-type')).toBe(`application/json${charset}`);
      expect(await response.json()).toEqual({
        error: {
          message: expect.any(String),
          type: 'invalid_request_error',
          param: 'model' in body && body.model !== 7 ? 'messages' : 'model',
          code: expect.any(String),
        },
      });
    }
  });

  it('says what is served, where a path or method is not', async () => {
    const gateway = current();
    const responses = gateway.client.responses.create({ model: 'acme/fast', input: 'Hi' });
    await expect(responses).rejects.toMatchObject({ status: 404, code: 'responses_not_supported' });
    await expect(gateway.client.embeddings.create({ model: 'acme/fast', input: 'Hi' })).rejects.toMatchObject(
      {
        status: 404,
        code: 'unknown_endpoint',
      },
    );
    const get = await gateway.fetch('/chat/completions');
    expect(get.status).toBe(405);
    expect(get.headers.get('allow')).toBe('POST, OPTIONS');
    expect(await get.json()).toMatchObject({ error: { code: 'method_not_allowed' } });
  });

  it('gives a request that no credits cover a 402 that the client does not repeat', async () => {
    const gateway = current();
    await gateway.router.credits.adjust(gateway.account, '-4.99999', { id: 'empty', reason: 'test' });
    const client = new OpenAI({ baseURL: gateway.baseURL, apiKey: gateway.key, maxRetries: 2 });
    const refused = await client.chat.completions.create(QUESTION).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(OpenAI.APIError);
    expect(refused).toMatchObject({
      status: 402,
      code: 'insufficient_credits',
      type: 'insufficient_quota',
    });
    expect((refused as { error: unknown }).error).toMatchObject({
      available: '0.00001',
      affordable_max_tokens: 0,
    });
    expect((refused as { headers: Headers }).headers.get('x-should-retry')).toBe('false');
    expect(gateway.provider.received).toHaveLength(0);
  });
}

/** What the router decides alike behind each mount. */
function describeDecisions(current: () => AnyGateway): void {
  it('lists its models in the shape of OpenAI', async () => {
    const gateway = current();
    const models = await gateway.client.models.list();
    expect(models.data).toHaveLength(1);
    expect(models.data[0]).toMatchObject({
      id: 'acme/fast',
      object: 'model',
      created: 0,
      owned_by: 'acme',
    });
    expect(models.data[0]).toMatchObject({
      context_window: 8192,
      pricing: { input: '0.000001', output: '0.000003', prompt: '0.000001' },
    });
  });

  it('charges what the provider says was used, to the nano-dollar', async () => {
    const gateway = current();
    const settled = gateway.nextSettled();
    await gateway.client.chat.completions.create(QUESTION);
    expect((await settled).charged).toBe('0.000045'); // 9 × 1,000 + 12 × 3,000 nano-dollars
    expect(await (await gateway.fetch('/credits')).json()).toMatchObject({
      balance: '4.999955',
      total_used: '0.000045',
      held: '0.00',
    });
  });

  it('leaves the usage event to a client that asked for it', async () => {
    const gateway = current();
    gateway.provider.script = answerStream(STREAM);
    const stream = await gateway.client.chat.completions.create({
      ...QUESTION,
      stream: true,
      stream_options: { include_usage: true },
    });
    const usages = [];
    for await (const chunk of stream) if (chunk.usage) usages.push(chunk.usage);
    expect(usages).toEqual([USAGE]);
  });

  it('keeps the pauses between chunks', async () => {
    const gateway = current();
    gateway.provider.script = answerStream(STREAM, 50);
    const arrivals: number[] = [];
    for await (const _ of await gateway.client.chat.completions.create({ ...QUESTION, stream: true })) {
      arrivals.push(Date.now());
    }
    expect(arrivals).toHaveLength(4);
    // Three pauses of 50 ms, less what a busy machine may keep of the first chunk.
    expect(arrivals.at(-1)! - arrivals[0]!).toBeGreaterThan(40);
  });

  it('passes tool calls, also as streamed pieces of their arguments', async () => {
    const gateway = current();
    const call = (index: number, piece: Record<string, unknown>, id?: string): string =>
      event({
        choices: [
          {
            index: 0,
            delta: { tool_calls: [{ index, id, type: id && 'function', function: piece }] },
            finish_reason: null,
          },
        ],
      });
    gateway.provider.script = answerStream([
      event({ choices: [{ index: 0, delta: { role: 'assistant', content: null }, finish_reason: null }] }),
      call(0, { name: 'weather', arguments: '' }, 'call_1'),
      call(0, { arguments: '{"city":' }),
      call(0, { arguments: '"Oslo"}' }),
      event({ choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] }),
      USAGE_EVENT,
      DONE,
    ]);
    const tools = [
      { type: 'function' as const, function: { name: 'weather', parameters: { type: 'object' } } },
    ];
    const runner = gateway.client.chat.completions.stream({ ...QUESTION, tools });
    const { tool_calls: toolCalls } = (await runner.finalChatCompletion()).choices[0]!.message;
    expect(toolCalls?.[0]).toMatchObject({ function: { name: 'weather', arguments: '{"city":"Oslo"}' } });
    expect(JSON.parse(String(gateway.provider.received[0]?.body))).toMatchObject({ tools });
  });

  it('passes images and response formats, for nothing is rebuilt', async () => {
    const gateway = current();
    const request = {
      ...QUESTION,
      messages: [
        {
          role: 'user' as const,
          content: [{ type: 'image_url' as const, image_url: { url: 'data:image/png;base64,AAAA' } }],
        },
      ],
      response_format: { type: 'json_object' as const },
    };
    await gateway.client.chat.completions.create(request);
    expect(JSON.parse(String(gateway.provider.received[0]?.body))).toEqual({
      ...request,
      model: 'upstream-model',
    });
  });

  it('refuses a request without a key, or with an unknown one', async () => {
    const gateway = current();
    const missing = await fetch(`${gateway.baseURL}/models`);
    expect(missing.status).toBe(401);
    expect(await missing.json()).toMatchObject({ error: { code: 'missing_api_key', param: null } });
    const stranger = new OpenAI({ baseURL: gateway.baseURL, apiKey: 'sk-nobody', maxRetries: 0 });
    await expect(stranger.models.list()).rejects.toMatchObject({ status: 401, code: 'invalid_api_key' });
  });

  it('refuses a key from the moment it is revoked', async () => {
    const gateway = current();
    const { id, key } = await gateway.router.keys.create({ account: gateway.account });
    const client = new OpenAI({ baseURL: gateway.baseURL, apiKey: key, maxRetries: 0 });
    await client.models.list();
    await gateway.router.keys.revoke(gateway.account, id);
    const refusal = { status: 401, code: 'revoked_api_key' };
    // Another process may list models by what it remembers of the key, until a completion tells it.
    await expect(client.chat.completions.create(QUESTION)).rejects.toMatchObject(refusal);
    await expect(client.models.list()).rejects.toMatchObject(refusal);
  });

  it('says that a model does not exist', async () => {
    const gateway = current();
    const asked = gateway.client.chat.completions.create({ ...QUESTION, model: 'acme/slow' });
    const refusal = { status: 404, code: 'model_not_found', param: 'model', type: 'invalid_request_error' };
    await expect(asked).rejects.toMatchObject(refusal);
    await expect(gateway.client.models.retrieve('acme/slow')).rejects.toMatchObject(refusal);
  });

  it('passes what a provider refuses, verbatim, and charges nothing', async () => {
    const gateway = current();
    const body = '{"error":{"message":"Slow down.","type":"rate_limit","param":null,"code":"rate_limited"}}';
    gateway.provider.script = answerJson(body, 429, { 'retry-after-ms': '10' });
    const settled = gateway.nextSettled();
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(429);
    expect(response.headers.get('retry-after-ms')).toBe('10');
    expect(await response.text()).toBe(body);
    expect(await settled).toMatchObject({ voided: true, charged: '0.00' });
  });
}
