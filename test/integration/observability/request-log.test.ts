import { describe, expect, it, onTestFinished } from 'vitest';

import {
  type ChatCompletionsRouter,
  createChatCompletionsRouter,
  type LoggedRequest,
  MemoryStore,
  type RequestLogRow,
  StoreUnavailableError,
} from '../../../src/index.ts';
import { openStore } from '../../../src/ledger/stores/open-store.ts';
import { MemoryRequestLog } from '../../../src/ledger/stores/memory/memory-request-log.ts';
import { describeEachStore } from '../../helpers/each-store.ts';
import {
  type Gateway,
  type GatewayOptions,
  PROVIDER_KEY,
  QUESTION,
  startGateway,
} from '../../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  completionBody,
  event,
  STREAM,
  text,
  USAGE_EVENT,
} from '../../helpers/provider.ts';
import { startTwoTargets } from '../faults/two-targets.ts';

async function start(options: GatewayOptions = {}): Promise<Gateway> {
  const gateway = await startGateway({ retries: false, ...options });
  onTestFinished(() => gateway.close());
  return gateway;
}

/** Asks to the end, and returns the id of the answer. */
async function ask(
  { post, router }: Pick<Gateway, 'post' | 'router'>,
  body: unknown = QUESTION,
): Promise<string> {
  const response = await post(body);
  await response.text();
  const id = response.headers.get('x-request-id') ?? '';
  // The log has it once the handler is done.
  while (router.requests().some((running) => running.id === id)) await new Promise(setImmediate);
  return id;
}

interface Found {
  readonly data: Readonly<Record<string, unknown>>;
}

const OVERLOADED = JSON.stringify({
  error: { message: `No capacity for "my secret prompt" and ${PROVIDER_KEY}`, code: 'overloaded' },
});

describe('the log of requests', () => {
  it('tells of an answer where it came from, how long it took, and what it cost', async () => {
    const gateway = await start({ dimensions: { tags: [{ name: 'feature', header: 'x-feature' }] } });
    gateway.provider.script = answerStream(STREAM);
    const response = await gateway.post(
      { ...QUESTION, stream: true, user: 'u-17' },
      { headers: { 'x-feature': 'search', 'x-request-id': 'mine-1' } },
    );
    await response.text();
    const id = response.headers.get('x-request-id') ?? '';
    const [key] = await gateway.router.keys.list('acct');
    await gateway.router.close();
    expect(await gateway.router.requestLog.find(id)).toEqual({
      id,
      createdAt: expect.any(Date),
      account: 'acct',
      key: key?.id,
      endpoint: 'completions',
      status: 200,
      model: 'acme/fast',
      provider: 'loopback',
      upstreamModel: 'upstream-model',
      byok: false,
      streamed: true,
      attempts: [
        {
          provider: 'loopback',
          model: 'upstream-model',
          afterMs: expect.any(Number),
          durationMs: expect.any(Number),
          status: 200,
        },
      ],
      firstByteMs: expect.any(Number),
      durationMs: expect.any(Number),
      ending: 'finished',
      finishReason: 'stop',
      state: 'settled',
      charged: '0.000045',
      price: expect.any(String),
      usage: expect.objectContaining({ promptTokens: 9, completionTokens: 12, source: 'upstream' }),
      dimensions: { 'tag:feature': 'search' },
      clientRequestId: 'mine-1',
    } satisfies Record<keyof LoggedRequest, unknown> | object);
  });

  it('tells of each attempt, with codes and without the words of a provider', async () => {
    const targets = await startTwoTargets({ retries: { perTarget: 1 } });
    onTestFinished(() => targets.close());
    const { gateway, primary, fallback } = targets;
    primary.answer(answerJson(OVERLOADED, 503));
    fallback.answer(answerJson(completionBody()));
    const id = await ask(gateway);
    const request = await gateway.router.requestLog.find(id);
    expect(request).toMatchObject({ status: 200, provider: 'fallback', state: 'settled' });
    expect(request?.attempts).toMatchObject([
      { provider: 'primary', status: 503, upstreamCode: 'overloaded' },
      { provider: 'fallback', status: 200 },
    ]);
    expect(JSON.stringify(request)).not.toMatch(/secret|capacity/);
  });

  it('has failed and refused requests too', async () => {
    const gateway = await start();
    gateway.provider.script = answerJson(OVERLOADED, 503);
    const failed = await ask(gateway);
    const unknown = await ask(gateway, { ...QUESTION, model: 'no/such' });
    expect(await gateway.router.requestLog.find(failed)).toMatchObject({
      status: 503,
      state: 'voided',
      charged: '0.00',
    });
    expect(await gateway.router.requestLog.find(unknown)).toMatchObject({
      status: 404,
      code: 'model_not_found',
      state: 'refused',
      attempts: [],
    });
    const { requests } = await gateway.router.requestLog.search({ account: 'acct' });
    expect(requests.map(({ id }) => id)).toEqual([unknown, failed]);
  });

  it('has none of a client without a valid key', async () => {
    const gateway = await start();
    await gateway.post(QUESTION, { headers: { authorization: 'Bearer wrong' } });
    expect(await gateway.router.requestLog.search()).toEqual({ requests: [] });
  });

  it('is searched by everything that it says, page by page', async () => {
    const gateway = await start({
      models: {
        one: { targets: ['loopback/a'], pricing: { input: '1', output: '1' }, maxOutputTokens: 1000 },
        two: { targets: ['loopback/b'], pricing: { input: '1', output: '1' }, maxOutputTokens: 1000 },
      },
    });
    const ids: string[] = [];
    for (let n = 0; n < 6; n++) {
      gateway.provider.script = n === 3 ? answerJson(OVERLOADED, 503) : answerJson(completionBody());
      ids.push(await ask(gateway, { ...QUESTION, model: n % 2 ? 'two' : 'one' }));
    }
    const { requestLog } = gateway.router;
    const found = async (search: object): Promise<readonly number[]> =>
      (await requestLog.search(search)).requests.map(({ id }) => ids.indexOf(id));
    expect(await found({ model: 'two' })).toEqual([5, 3, 1]);
    expect(await found({ status: 503 })).toEqual([3]);
    expect(await found({ status: '2xx', model: 'two' })).toEqual([5, 1]);
    expect(await found({ code: 'overloaded' })).toEqual([3]);
    expect(await found({ provider: 'loopback' })).toEqual([5, 4, 3, 2, 1, 0]);
    expect(await found({ provider: 'other' })).toEqual([]);
    expect(await found({ account: 'other' })).toEqual([]);
    expect(await found({ key: 'other' })).toEqual([]);
    expect(await found({ from: new Date(Date.now() + 60_000) })).toEqual([]);
    expect(await found({ to: new Date(Date.now() - 60_000) })).toEqual([]);
    const first = await requestLog.search({ limit: 4 });
    expect(first.requests.map(({ id }) => ids.indexOf(id))).toEqual([5, 4, 3, 2]);
    expect(await found({ limit: 4, cursor: first.cursor })).toEqual([1, 0]);
    await expect(requestLog.search({ limit: 0 })).rejects.toThrow(
      'limit must be an integer from 1 to 500, got 0',
    );
    await expect(requestLog.search({ cursor: 'x' })).rejects.toThrow(
      'cursor must be that of an earlier search',
    );
    await expect(requestLog.search({ from: new Date(NaN) })).rejects.toThrow('from must be a valid Date');
  });

  it('logs none with requestLogDays of 0', async () => {
    const gateway = await start({ requestLogDays: 0 });
    const id = await ask(gateway);
    expect(await gateway.router.requestLog.find(id)).toBeUndefined();
  });

  it.each([
    ['requestLogDays', -1, 'an integer from 0 to 365'],
    ['requestLogDays', 1.5, 'an integer from 0 to 365'],
    ['requestLogMax', 0, 'an integer from 1 to 10000000'],
  ])('rejects %s of %d', (option, value, wanted) => {
    const options = { store: 'memory:', providers: {}, models: {}, [option]: value };
    expect(() => createChatCompletionsRouter(options)).toThrow(`${option} must be ${wanted}, got ${value}`);
  });

  it('keeps what a store that is away did not take, and serves requests meanwhile', async () => {
    const log = new MemoryRequestLog();
    let isAway = true;
    const append = log.append.bind(log);
    log.append = async (rows: readonly RequestLogRow[]) => {
      if (isAway) throw new StoreUnavailableError('no');
      await append(rows);
    };
    const store = Object.assign(new MemoryStore(), { requestLog: log });
    const gateway = await start({ store });
    await gateway.router.credits.grant('acct', '1', { id: 'g' });
    const id = await ask(gateway);
    expect(await gateway.router.requestLog.find(id)).toBeUndefined();
    isAway = false;
    expect(await gateway.router.requestLog.find(id)).toMatchObject({ id, status: 200 });
  });
});

describeEachStore('the log of requests', (ledger) => {
  it('is shared by processes, and outlives them', async () => {
    const open = ledger();
    const gateway = await start({ store: open() });
    const id = await ask(gateway);
    await gateway.router.close();
    const other = createChatCompletionsRouter({ store: open(), providers: {}, models: {} });
    onTestFinished(() => other.close());
    expect(await other.requestLog.find(id)).toMatchObject({ id, state: 'settled' });
    expect((await other.requestLog.search({ account: 'acct' })).requests).toHaveLength(1);
  });

  it('answers GET /generation when the books have forgotten the request', async () => {
    const open = ledger();
    const store = open();
    const first = await start({ store });
    const id = await ask(first);
    const lookUp = async (router: ChatCompletionsRouter, account: string): Promise<Response> => {
      const { key } = await router.keys.create({ account });
      const init = { headers: { authorization: `Bearer ${key}` } };
      return router.fetch(new Request(`http://localhost/v1/generation?id=${id}`, init));
    };
    const books = (await (await lookUp(first.router, 'acct')).json()) as Found;
    const inner = typeof store === 'string' ? openStore(store) : store;
    const forgetful = Object.assign(inner, { request: async () => undefined });
    const router = createChatCompletionsRouter({ store: forgetful, providers: {}, models: {} });
    onTestFinished(() => router.close());
    await first.router.requestLog.search();
    const kept = await lookUp(router, 'acct');
    expect(kept.status).toBe(200);
    const { data } = (await kept.json()) as Found;
    expect(data).toEqual({
      ...books.data,
      created_at: expect.any(String),
      latency: expect.any(Number),
      generation_time: expect.any(Number),
    });
    expect(data['is_byok']).toBe(false);
    expect([data['latency'], data['generation_time']].every(Number.isInteger)).toBe(true);
    expect((await lookUp(router, 'other')).status).toBe(404);
  });

  it('answers GET /generation of an answer with an error as the books did', async () => {
    const from = ledger()();
    const store = typeof from === 'string' ? openStore(from) : from;
    const gateway = await start({ store });
    const error = event({ error: { message: 'no' } });
    gateway.provider.script = answerStream([text('hello', 'stop'), USAGE_EVENT, error]);
    const id = await ask(gateway, { ...QUESTION, stream: true });
    await expect
      .poll(async () => (await gateway.router.requestLog.search()).requests)
      .toMatchObject([{ id, state: 'settled', finishReason: 'error' }]);
    const failed = { ending: 'finished', finish_reason: 'error', native_finish_reason: 'error' };
    const books = (await (await gateway.fetch(`/generation?id=${id}`)).json()) as Found;
    expect(books.data).toMatchObject(failed);
    Object.assign(store, { request: async () => undefined });
    const kept = (await (await gateway.fetch(`/generation?id=${id}`)).json()) as Found;
    expect(kept.data).toMatchObject(failed);
  });

  it('answers GET /generation of no request that never got its charge, once the books have forgotten it', async () => {
    const from = ledger()();
    const store = typeof from === 'string' ? openStore(from) : from;
    const gateway = await start({ store });
    const id = await ask(gateway);
    await expect
      .poll(async () => (await gateway.router.requestLog.search()).requests)
      .toMatchObject([{ id, state: 'settled' }]);
    const row = await store.requestLog?.find(id);
    // Its process died before the charge was posted.
    const json = JSON.stringify({ ...JSON.parse(row?.json ?? '{}'), state: 'unsettled' });
    await store.requestLog?.append([{ id, account: 'acct', json, replaces: true }]);
    Object.assign(store, { request: async () => undefined });
    const response = await gateway.fetch(`/generation?id=${id}`);
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: { code: 'generation_not_found' } });
  });

  it('answers GET /generation of no request that was refused', async () => {
    const gateway = await start({ store: ledger()() });
    const id = await ask(gateway, { ...QUESTION, model: 'acme/none' });
    await expect
      .poll(async () => (await gateway.router.requestLog.search()).requests)
      .toMatchObject([{ id, state: 'refused' }]);
    const response = await gateway.fetch(`/generation?id=${id}`);
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: { code: 'generation_not_found' } });
  });

  it('does not begin again with the key of a deleted account', async () => {
    const open = ledger();
    const gateway = await start({ store: open() });
    await ask(gateway);
    await expect.poll(async () => (await gateway.router.requestLog.search()).requests.length).toBe(1);
    const other = createChatCompletionsRouter({ store: open(), providers: {}, models: {} });
    onTestFinished(() => other.close());
    await other.accounts.delete('acct');
    expect((await gateway.post(QUESTION)).status).toBe(401);
    expect((await gateway.router.requestLog.search()).requests).toEqual([]);
  });

  it('forgets what another gateway had not written of a deleted account', async () => {
    const open = ledger();
    const gateway = await start({ store: open() });
    const id = await ask(gateway);
    const other = createChatCompletionsRouter({ store: open(), providers: {}, models: {} });
    await other.accounts.delete('acct');
    // A search writes what waits.
    expect((await gateway.router.requestLog.search()).requests).toMatchObject([{ id }]);
    await other.close();
    expect((await gateway.router.requestLog.search()).requests).toEqual([]);
  });

  it('forgets a deleted account', async () => {
    const gateway = await start({ store: ledger()() });
    const id = await ask(gateway);
    await gateway.router.accounts.delete('acct');
    expect(await gateway.router.requestLog.find(id)).toBeUndefined();
    expect((await gateway.router.requestLog.search()).requests).toEqual([]);
  });
});
