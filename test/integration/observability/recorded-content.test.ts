import { afterEach, describe, expect, it, vi } from 'vitest';

import {
  createChatCompletionsRouter,
  type Hooks,
  MemoryStore,
  type RecordedContent,
} from '../../../src/index.ts';
import { createHookRunner } from '../../../src/observability/hook-runner.ts';
import { BodyCapture } from '../../../src/observability/content-capture.ts';
import { end, error as refuse, hang, stream } from '../../../src/testing.ts';
import { startTwoTargets } from '../faults/two-targets.ts';
import { type Gateway, mountOnNode, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  beginStream,
  completionBody,
  event,
  STREAM,
  text,
} from '../../helpers/provider.ts';
import { collectTold } from '../../helpers/told.ts';

let gateway: Gateway;

afterEach(async () => {
  await gateway.close();
});

/** Hooks that keep what they are told of content, and say when it comes. */
function record(maxContentBytes?: number): {
  readonly hooks: Hooks;
  readonly all: readonly RecordedContent[];
  readonly first: Promise<RecordedContent>;
} {
  const all: RecordedContent[] = [];
  const { promise: first, resolve } = Promise.withResolvers<RecordedContent>();
  const onContent = (content: RecordedContent): void => {
    all.push(content);
    resolve(content);
  };
  return { hooks: { onContent, ...(maxContentBytes !== undefined && { maxContentBytes }) }, all, first };
}

/** What a client asks, byte for byte: spaces and a number that no parser would write again. */
const BODY =
  '{ "model": "acme/fast",  "temperature": 1.0, "messages": [{"role":"user","content":"Say hello."}] }';

describe('onContent', () => {
  it('has what the client sent and got, byte for byte, once, before onResponse', async () => {
    const recording = record();
    const order: string[] = [];
    const ordered: Hooks = {
      onContent: () => order.push('content'),
      onResponse: () => order.push('response'),
    };
    gateway = await startGateway({ hooks: [recording.hooks, ordered] });
    const told = recording.first;
    const response = await gateway.post(BODY);
    const got = await response.text();
    const [key] = await gateway.router.keys.list('acct');
    const { request, response: answer, ...rest } = await told;
    expect(rest).toEqual({
      requestId: response.headers.get('x-request-id'),
      account: 'acct',
      key: key?.id,
      model: 'acme/fast',
      provider: 'loopback',
      stream: false,
      requestTruncated: false,
      responseTruncated: false,
    });
    expect(request.toString()).toBe(BODY);
    expect(answer.toString()).toBe(got);
    expect(got).toContain('Hello there.');
    expect(gateway.provider.received[0]?.body.toString()).toContain('upstream-model');
    await expect.poll(() => order).toEqual(['content', 'response']);
    expect(recording.all).toHaveLength(1);
  });

  it('has the events of a stream that the client got, without the one that was taken out', async () => {
    const recording = record();
    gateway = await startGateway({ hooks: [recording.hooks] });
    gateway.provider.script = answerStream(STREAM, 2);
    const told = recording.first;
    const got = await (await gateway.post({ ...QUESTION, stream: true })).text();
    const { response, stream: streamed } = await told;
    expect(response.toString()).toBe(got);
    expect(got).not.toContain('prompt_tokens');
    expect(streamed).toBe(true);
  });

  it('has the same through the fetch handler', async () => {
    const recording = record();
    gateway = await startGateway({ hooks: [recording.hooks] });
    const told = recording.first;
    const response = await gateway.router.fetch(
      new Request('http://app/v1/chat/completions', {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}` },
        body: BODY,
      }),
    );
    const got = await response.text();
    const content = await told;
    expect(content.request.toString()).toBe(BODY);
    expect(content.response.toString()).toBe(got);
  });

  it('has what had come when the client left', async () => {
    const recording = record();
    gateway = await startGateway({ hooks: [recording.hooks] });
    gateway.provider.script = stream(text('Hello'), hang);
    const told = recording.first;
    const controller = new AbortController();
    const response = await gateway.post({ ...QUESTION, stream: true }, { signal: controller.signal });
    await response.body!.getReader().read();
    controller.abort();
    expect((await told).response.toString()).toBe(text('Hello'));
  });

  it('has the error event that ended a stream', async () => {
    const recording = record();
    gateway = await startGateway({ hooks: [recording.hooks] });
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(text('Hello'), () => response.destroy());
    };
    const told = recording.first;
    const got = await (await gateway.post({ ...QUESTION, stream: true })).text();
    const { response } = await told;
    expect(response.toString()).toBe(got);
    expect(got).toContain('upstream_cut');
  });

  it('has the answer that the client got of a failover, and none of what failed', async () => {
    const recording = record();
    const two = await startTwoTargets({ hooks: [recording.hooks] });
    ({ gateway } = two);
    two.primary.answer(refuse(503, { message: 'Overloaded.' }));
    const told = recording.first;
    await gateway.post(QUESTION);
    const { provider, response, request } = await told;
    expect(provider).toBe('fallback');
    expect(response.toString()).toContain(' w00 w01');
    expect(response.toString()).not.toContain('Overloaded');
    expect(request.toString()).toBe(JSON.stringify(QUESTION));
    expect(recording.all).toHaveLength(1);
    await Promise.all([two.primary.close(), two.fallback.close()]);
  });

  it('has the error that the client got where no provider answered', async () => {
    const recording = record();
    gateway = await startGateway({ hooks: [recording.hooks], retries: false });
    gateway.provider.script = (response) => response.destroy();
    const told = recording.first;
    const got = await (await gateway.post(QUESTION)).text();
    expect((await told).response.toString()).toBe(got);
    expect(got).toContain('"code"');
  });

  it('is not called where no money was held', async () => {
    const recording = record();
    const heard = collectTold();
    gateway = await startGateway({ hooks: [recording.hooks, heard.hooks] });
    const refused = heard.next();
    await gateway.post({ ...QUESTION, model: 'acme/none' });
    await refused;
    const unpaid = heard.next();
    const { key } = await gateway.router.keys.create({ account: 'poor', name: 'poor' });
    await gateway.post(QUESTION, { headers: { authorization: `Bearer ${key}` } });
    expect(await unpaid).toMatchObject({ account: 'poor', model: 'acme/fast', status: 402 });
    const listed = heard.next();
    await gateway.fetch('/models');
    await listed;
    expect(recording.all).toEqual([]);
  });

  it('keeps at most maxContentBytes of each body, for each hook what it wants, and says so', async () => {
    const short = record(10);
    const exact = record(BODY.length);
    const usual = record();
    gateway = await startGateway({ hooks: [short.hooks, exact.hooks, usual.hooks] });
    const answer = completionBody({ system_fingerprint: 'x'.repeat(70_000) });
    gateway.provider.script = answerJson(answer);
    await (await gateway.post(BODY)).text();
    const told = await Promise.all([short.first, exact.first, usual.first]);
    expect(told.map(({ request }) => request.toString())).toEqual([BODY.slice(0, 10), BODY, BODY]);
    expect(told.map(({ requestTruncated }) => requestTruncated)).toEqual([true, false, false]);
    expect(told.map(({ response }) => response.length)).toEqual([10, BODY.length, 65_536]);
    expect(told.map(({ responseTruncated }) => responseTruncated)).toEqual([true, true, true]);
    expect(told[2]?.response.toString()).toBe(answer.slice(0, 65_536));
  });

  it('gives each hook bytes of its own, and none that can break another', async () => {
    const recording = record();
    vi.spyOn(console, 'error').mockImplementation(() => {});
    const scribbler: Hooks = {
      onContent: ({ request }) => {
        request.fill('x');
        throw new Error('No disk');
      },
    };
    gateway = await startGateway({ hooks: [scribbler, recording.hooks] });
    const told = recording.first;
    expect((await gateway.post(BODY)).status).toBe(200);
    expect((await told).request.toString()).toBe(BODY);
    vi.restoreAllMocks();
  });

  it.each([0, -1, 1.5, 1_048_577, '10', Number.NaN])('refuses maxContentBytes of %s', async (given) => {
    gateway = await startGateway();
    expect(() =>
      createChatCompletionsRouter({
        store: new MemoryStore(),
        providers: {},
        models: {},
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what JavaScript may give
        hooks: [{ onContent: () => {}, maxContentBytes: given as number }],
      }),
    ).toThrow(/^hooks\[0\]\.maxContentBytes must be an integer from 1 to 1,048,576, got /);
  });
});

describe('without onContent', () => {
  it('nothing of a prompt or an answer is kept', async () => {
    gateway = await startGateway();
    const { observer } = createHookRunner([
      { onRequest: () => {}, onResponse: () => {}, maxContentBytes: 100 },
    ]);
    const request = { id: 'r', method: 'POST', headers: {} };
    expect(observer?.begin(request, '/v1/chat/completions', 'completions').content).toBeUndefined();
  });

  it('nothing of a prompt or an answer is reported, however a request ends', async () => {
    const logged = vi.spyOn(console, 'error').mockImplementation(() => {});
    const events: unknown[] = [];
    const note = (...told: unknown[]): void => {
      events.push(
        ...told.map((event) => (event instanceof Error ? [event.message, { ...event }, event.cause] : event)),
      );
    };
    const all: Hooks = {
      onRequest: note,
      onResponse: note,
      onSettled: note,
      onError: note,
      onLedgerEvent: note,
      onHealthChange: note,
    };
    gateway = await startGateway({ hooks: [all, { onResponse: note }], retries: false }, mountOnNode);
    const question = { ...QUESTION, messages: [{ role: 'user', content: 'tell marker-prompt' }] };
    const calls = [{ index: 0, id: 'c', function: { name: 'f', arguments: '{"x":"marker-args"}' } }];
    const scripts = [
      answerJson(completionBody({ choices: [{ index: 0, message: { content: 'marker-answer' } }] })),
      stream(text('marker-answer'), event({ choices: [{ index: 0, delta: { tool_calls: calls } }] }), end),
      stream(text('marker-answer'), (response) => response.destroy()),
      refuse(400, { message: 'marker-refusal' }),
      refuse(503, { message: 'marker-refusal' }),
    ];
    for (const script of scripts) {
      gateway.provider.script = script;
      const before = gateway.settled.length;
      await (await gateway.post({ ...question, stream: true })).text().catch(() => '');
      await expect.poll(() => gateway.settled.length).toBe(before + 1);
    }
    await gateway.post('{"model":"acme/fast","messages":"marker-broken');
    expect(events.length).toBeGreaterThan(20);
    expect(JSON.stringify([events, logged.mock.calls, gateway.settled])).not.toContain('marker-');
    vi.restoreAllMocks();
  });
});

describe('KeptBytes', () => {
  it('pins no memory of what it was given, nor more than it may keep', () => {
    const kept = new BodyCapture(10_000);
    const given = Buffer.alloc(6000, 'a');
    for (let i = 0; i < 3; i++) kept.add(given);
    given.fill('b');
    const { bytes, isTruncated } = kept.first(10_000);
    expect(bytes.toString()).toBe('a'.repeat(10_000));
    expect(bytes.buffer.byteLength).toBe(10_000);
    expect(isTruncated).toBe(true);
  });

  it('is not truncated by what just fits', () => {
    const kept = new BodyCapture(4);
    kept.add(Buffer.from('ab'));
    kept.add(Buffer.from('cd'));
    kept.add(Buffer.alloc(0));
    expect(kept.first(4)).toEqual({ bytes: Buffer.from('abcd'), isTruncated: false });
    expect(kept.first(3)).toEqual({ bytes: Buffer.from('abc'), isTruncated: true });
  });
});
