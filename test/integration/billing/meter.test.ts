import * as http from 'node:http';
import { once } from 'node:events';
import { gzipSync } from 'node:zlib';

import express from 'express';
import OpenAI from 'openai';
import { fetch as fetchOfPackage } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import {
  createChatCompletionsRouter,
  type MeteredCall,
  type MeteredHandler,
  type MeterOptions,
  ModelNotFoundError,
} from '../../../src/index.ts';
import { type Gateway, listen, startGateway } from '../../helpers/gateway.ts';

const OPTIONS: MeterOptions = { model: 'embed/small', price: '0.02' };
const EMBEDDING = {
  object: 'list',
  model: 'embed/small',
  data: [{ object: 'embedding', index: 0, embedding: [0.25, 0.5] }],
  usage: { prompt_tokens: 3, total_tokens: 3 },
};
const OK: MeteredHandler = () => Response.json(EMBEDDING);

describe('a metered route', () => {
  let gateway: Gateway;
  const servers: { close(): Promise<void> }[] = [];

  beforeEach(async () => {
    gateway = await startGateway({ maxBodyBytes: 1000, cors: { origins: ['https://app.example'] } });
  });

  afterEach(async () => {
    for (const server of servers.splice(0)) await server.close();
    expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
    await gateway.close();
  });

  /** Serves a handler on Node, and returns its URL. */
  async function serve(handler: MeteredHandler, options = OPTIONS): Promise<string> {
    const mounted = await listen(http.createServer(gateway.router.meter(handler, options)), '/v1/embeddings');
    servers.push(mounted);
    return mounted.baseURL;
  }

  const post = (url: string, body: unknown = { input: 'hi' }, init: RequestInit = {}) =>
    fetch(url, {
      method: 'POST',
      body: JSON.stringify(body),
      ...init,
      headers: {
        authorization: `Bearer ${gateway.key}`,
        'content-type': 'application/json',
        ...init.headers,
      },
    });
  const used = async () => (await gateway.router.credits.balance('acct')).totalUsed;
  const codeOf = async (response: Response) => ((await response.json()) as ErrorBody).error.code;

  it('answers the official client, and charges its price', async () => {
    const url = await serve(OK);
    const client = new OpenAI({ baseURL: url.replace('/embeddings', ''), apiKey: gateway.key });
    const settled = gateway.nextSettled();
    const { data } = await client.embeddings.create({
      model: 'embed/small',
      input: 'hi',
      encoding_format: 'float',
    });
    expect(data[0]?.embedding).toEqual([0.25, 0.5]);
    expect(await settled).toMatchObject({ model: 'embed/small', charged: '0.02', ending: 'finished' });
    expect(await used()).toBe('0.02');
  });

  it('charges what its handler reports, with what was consumed', async () => {
    let given: MeteredCall | undefined;
    const url = await serve(
      async (request, call) => {
        given = call;
        expect(request.headers.get('authorization')).toBeNull();
        expect(await request.json()).toEqual({ input: 'hi' });
        call.charge('0.01');
        call.charge('0.003', { promptTokens: 3, units: 1, cost: '0.002' });
        return Response.json(EMBEDDING, { headers: { 'x-region': 'eu' } });
      },
      { ...OPTIONS, provider: 'cohere' },
    );
    const settled = gateway.nextSettled();
    const response = await post(url);
    expect(response.headers.get('x-region')).toBe('eu');
    expect(response.headers.get('x-request-id')).toBe(given?.requestId);
    expect(await response.json()).toEqual(EMBEDDING);
    expect(given).toMatchObject({ caller: { account: 'acct' }, model: 'embed/small', held: '0.02' });
    expect(await settled).toMatchObject({ charged: '0.003', cost: '0.002', provider: 'cohere' });
    const line = (await gateway.router.credits.journal('acct')).at(-1);
    expect(line).toMatchObject({ id: given?.requestId, usage: { promptTokens: 3, units: 1, cost: '0.002' } });
  });

  it('is a fetch handler, too', async () => {
    const { fetch: handle } = gateway.router.meter(OK, OPTIONS);
    const settled = gateway.nextSettled();
    const request = new Request('http://app.example/v1/embeddings', {
      method: 'POST',
      body: '{"input":"hi"}',
      headers: { authorization: `Bearer ${gateway.key}` },
    });
    const response = await handle(request);
    expect(await response.json()).toEqual(EMBEDDING);
    expect((await settled).charged).toBe('0.02');
    await gateway.router.settled(request);
  });

  it('works in Express, behind a body parser', async () => {
    const app = express();
    app.use(express.json());
    app.use(
      '/embed',
      gateway.router.meter(async (request) => Response.json(await request.json()), OPTIONS),
    );
    const mounted = await listen(http.createServer(app), '/embed');
    servers.push(mounted);
    const settled = gateway.nextSettled();
    expect(await (await post(mounted.baseURL)).json()).toEqual({ input: 'hi' });
    expect((await settled).charged).toBe('0.02');
  });

  it('takes its model and its price from the request', async () => {
    const url = await serve(OK, {
      model: async (request) => {
        const { model } = (await request.json()) as { model?: string };
        if (model === 'unknown') throw new ModelNotFoundError(model);
        return model;
      },
      price: async (request, { account }) => {
        const { input } = (await request.json()) as { input: string };
        return account === 'acct' ? `0.0${input.length}` : '9.00';
      },
    });
    const settled = gateway.nextSettled();
    await post(url, { model: 'embed/large', input: 'four' });
    expect(await settled).toMatchObject({ model: 'embed/large', charged: '0.04' });
    const unknown = await post(url, { model: 'unknown', input: '' });
    expect([unknown.status, await codeOf(unknown)]).toEqual([404, 'model_not_found']);
    const nameless = await post(url, { input: 'four' });
    expect([nameless.status, await codeOf(nameless)]).toEqual([400, 'missing_required_parameter']);
    const broken = await post(url, {}, { body: '{' });
    expect([broken.status, await codeOf(broken)]).toEqual([400, 'invalid_json']);
    expect(await used()).toBe('0.04');
  });

  it.each([
    [5, 'invalid_type'],
    [null, 'invalid_type'],
    ['', 'invalid_value'],
    ['m'.repeat(256), 'invalid_value'],
    ['a\0b', 'invalid_value'],
  ])('blames the client for its model where that is no name: %j', async (model, code) => {
    const url = await serve(OK, {
      ...OPTIONS,
      model: async (request) => ((await request.json()) as { model: string }).model,
    });
    const refused = await post(url, { model });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ error: { code, param: 'model' } });
    expect(gateway.errors).toEqual([]);
  });

  it('is refused as a chat completion is, before its handler is called', async () => {
    let calls = 0;
    const counted: MeteredHandler = (request, call) => {
      calls += 1;
      return OK(request, call);
    };
    const url = await serve(counted);
    const dear = await serve(counted, { ...OPTIONS, price: '5.01' });
    const { key: narrow } = await gateway.router.keys.create({ account: 'acct', models: ['acme/*'] });
    const { key: slow } = await gateway.router.keys.create({ account: 'acct', requestsPerMinute: 1 });
    const bearer = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });
    const refusals = [
      await fetch(url, { method: 'POST' }),
      await post(url, {}, bearer('sk-ccr-nonsense')),
      await post(url, {}, bearer(narrow)),
      await post(dear),
      await post(url, 'x'.repeat(1000)),
      await fetch(url, { headers: { authorization: `Bearer ${gateway.key}` } }),
    ];
    const seen = [];
    for (const refusal of refusals) seen.push([refusal.status, await codeOf(refusal)]);
    expect(seen).toEqual([
      [401, 'missing_api_key'],
      [401, 'invalid_api_key'],
      [403, 'model_not_allowed'],
      [402, 'insufficient_credits'],
      [413, 'request_too_large'],
      [405, 'method_not_allowed'],
    ]);
    expect(calls).toBe(0);
    expect((await post(url, {}, bearer(slow))).headers.get('x-ratelimit-remaining-requests')).toBe('0');
    const second = await post(url, {}, bearer(slow));
    expect([second.status, await codeOf(second)]).toEqual([429, 'requests_per_minute_exceeded']);
    expect(calls).toBe(1);
  });

  it('obeys a key that was changed a moment ago', async () => {
    const url = await serve(OK);
    const { key, id } = await gateway.router.keys.create({ account: 'acct' });
    const init = { headers: { authorization: `Bearer ${key}` } };
    expect((await post(url, {}, init)).status).toBe(200);
    await gateway.router.keys.update('acct', id, { models: ['acme/*'] });
    expect((await post(url, {}, init)).status).toBe(403);
    await gateway.router.keys.revoke('acct', id);
    expect(await codeOf(await post(url, {}, init))).toBe('revoked_api_key');
  });

  it('obeys a key that another process has just allowed its model', async () => {
    const url = await serve(OK);
    const { key, id } = await gateway.router.keys.create({ account: 'acct', models: ['acme/*'] });
    const init = { headers: { authorization: `Bearer ${key}` } };
    expect((await post(url, {}, init)).status).toBe(403);
    const other = createChatCompletionsRouter({
      store: gateway.store,
      providers: { none: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'sk' } },
      models: { none: { targets: ['none/none'], pricing: 'free' } },
    });
    await other.keys.update('acct', id, { models: ['embed/*'] });
    expect((await post(url, {}, init)).status).toBe(200);
  });

  it('charges nothing if its handler throws, or answers with an error', async () => {
    const throwing = await serve(() => {
      throw new Error('out of paper');
    });
    const failing = await serve(() => Response.json({ error: 'no' }, { status: 502 }));
    const mistaken = await serve((() => ({ ok: true })) as never);
    for (const [url, status] of [
      [throwing, 500],
      [failing, 502],
      [mistaken, 500],
    ] as const) {
      const settled = gateway.nextSettled();
      const response = await post(url);
      expect(response.status).toBe(status);
      await response.text();
      expect(await settled).toMatchObject({ voided: true, charged: '0.00', ending: 'failed' });
    }
    expect(await used()).toBe('0.00');
    expect(gateway.errors.map(({ cause }) => String(cause))).toEqual([
      'Error: out of paper',
      'TypeError: The metered handler must return a Response, got object',
    ]);
  });

  it('charges what was reported before its handler threw', async () => {
    const url = await serve((_request, { charge }) => {
      charge('0.01');
      throw new Error('too late');
    });
    const settled = gateway.nextSettled();
    expect((await post(url)).status).toBe(500);
    expect(await settled).toMatchObject({ charged: '0.01', ending: 'failed' });
  });

  it('charges when a stream is over, with what was reported by then', async () => {
    const url = await serve((_request, { charge }) => {
      const pieces = ['a', 'b'];
      return new Response(
        new ReadableStream({
          pull: (controller) => {
            const piece = pieces.shift();
            if (piece !== undefined) controller.enqueue(Buffer.from(piece));
            else {
              charge('0.004', { units: 2 });
              controller.close();
            }
          },
        }),
      );
    });
    const settled = gateway.nextSettled();
    expect(await (await post(url)).text()).toBe('ab');
    expect((await settled).charged).toBe('0.004');
  });

  it('resets the connection if its stream breaks, and charges nothing', async () => {
    const url = await serve(
      () =>
        new Response(
          new ReadableStream({
            start: (controller) => controller.enqueue(Buffer.from('first')),
            pull: (controller) => controller.error(new Error('cut')),
          }),
        ),
    );
    const settled = gateway.nextSettled();
    await expect(post(url).then((response) => response.text())).rejects.toThrow(
      /^(terminated|fetch failed)$/,
    );
    expect(await settled).toMatchObject({ voided: true, ending: 'failed' });
  });

  it.each([
    ['fetch', fetch],
    // Its Response is of another class, as is the global one while a library has replaced it.
    ['the fetch of a package', fetchOfPackage as unknown as typeof fetch],
  ])('passes on the answer of a provider that %s has decompressed', async (_name, fetchOf) => {
    const provider = http.createServer((_request, response) => {
      const body = gzipSync(JSON.stringify(EMBEDDING));
      response
        .writeHead(200, {
          'content-encoding': 'gzip',
          'content-length': body.length,
          'set-cookie': ['a=1', 'b=2'],
        })
        .end(body);
    });
    const mounted = await listen(provider, '');
    servers.push(mounted);
    const url = await serve(() => fetchOf(mounted.baseURL));
    const settled = gateway.nextSettled();
    const response = await post(url);
    expect(gateway.errors).toEqual([]);
    expect(await response.json()).toEqual(EMBEDDING);
    expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
    await settled;
  });

  it('is called once for two requests with one Idempotency-Key', async () => {
    let calls = 0;
    const url = await serve(() => {
      calls += 1;
      return Response.json(EMBEDDING);
    });
    const init = { headers: { 'idempotency-key': 'order-1' } };
    const settled = gateway.nextSettled();
    await (await post(url, {}, init)).text();
    await settled;
    expect(await codeOf(await post(url, {}, init))).toBe('request_already_processed');
    expect(calls).toBe(1);
  });

  it('answers a preflight of the router’s origins, for its methods', async () => {
    const url = await serve(OK, { ...OPTIONS, methods: ['PUT', 'DELETE'] });
    const preflight = await fetch(url, {
      method: 'OPTIONS',
      headers: { origin: 'https://app.example', 'access-control-request-method': 'PUT' },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-methods')).toBe('PUT, DELETE, OPTIONS');
    expect(preflight.headers.get('access-control-allow-origin')).toBe('https://app.example');
  });

  it('tells caches what its handler varies by, and that it varies by origin', async () => {
    const url = await serve(() => new Response('hi', { headers: { vary: 'accept-language' } }));
    const settled = gateway.nextSettled();
    const response = await post(url, {}, { headers: { origin: 'https://app.example' } });
    expect(await response.text()).toBe('hi');
    expect(response.headers.get('vary')).toBe('origin, accept-language');
    expect(response.headers.get('access-control-allow-origin')).toBe('https://app.example');
    await settled;
  });

  it('is waited for when the router is closed, and tells its handler to stop', async () => {
    const router = (gateway = await withShortClose(gateway)).router;
    const arrived = new EventTarget();
    const handler: MeteredHandler = async (request) => {
      arrived.dispatchEvent(new Event('call'));
      await once(request.signal, 'abort');
      throw request.signal.reason;
    };
    const called = once(arrived, 'call');
    const { fetch: handle } = router.meter(handler, OPTIONS);
    const answer = handle(
      new Request('http://app.example/', {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}` },
      }),
    );
    await called;
    await router.close();
    expect((await answer).status).toBe(503);
    expect(gateway.settled).toMatchObject([{ voided: true }]);
  });

  it('throws for a charge that comes after the response', async () => {
    let late: MeteredCall['charge'] | undefined;
    const url = await serve((_request, { charge }) => {
      late = charge;
      return Response.json(EMBEDDING);
    });
    const settled = gateway.nextSettled();
    await (await post(url)).text();
    expect((await settled).charged).toBe('0.02');
    expect(() => late?.('0.05')).toThrow('charge must be called before the call is over');
  });

  it('charges what its handler had reported, if that ends only after the router was closed', async () => {
    const router = (gateway = await withShortClose(gateway)).router;
    const called = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<void>();
    const { fetch: handle } = router.meter(async (_request, { charge }) => {
      charge('0.01');
      called.resolve();
      await closed.promise;
      return Response.json(EMBEDDING);
    }, OPTIONS);
    const headers = { authorization: `Bearer ${gateway.key}` };
    const answer = handle(new Request('http://app.example/', { method: 'POST', headers }));
    await called.promise;
    await router.close();
    expect(gateway.settled).toMatchObject([{ charged: '0.01', ending: 'closed' }]);
    closed.resolve();
    expect((await answer).status).toBe(200);
  });

  it.each([
    [undefined, {}, 'handler must be a function'],
    [OK, { price: '-1' }, 'price must be 0 or more, got -1'],
    [OK, { model: '' }, 'model must be a string of 1 to 255 characters'],
    [OK, { methods: ['post'] }, 'methods must be a list of methods'],
    [OK, { tokens: 7 }, 'tokens must be a function'],
    [OK, { prize: '1' }, 'options has an unknown key "prize"; did you mean "price"?'],
  ])('is refused at once by the name of what is wrong: %#', (handler, wrong, message) => {
    expect(() => gateway.router.meter(handler as never, { ...OPTIONS, ...wrong } as MeterOptions)).toThrow(
      message,
    );
  });
});

interface ErrorBody {
  readonly error: { readonly code: string };
}

/** Another gateway, which doesn't wait for its requests. */
async function withShortClose(gateway: Gateway): Promise<Gateway> {
  await gateway.close();
  return startGateway({ closeTimeoutMs: 1 });
}
