import { once } from 'node:events';
import * as net from 'node:net';

import { afterEach, describe, expect, it, vi } from 'vitest';

import type { ChatCompletionsRouterOptions, Hooks, ProviderOptions } from '../../../src/index.ts';
import {
  drip,
  DONE,
  end,
  hang,
  hangUp,
  head,
  pause,
  raw,
  reset,
  type Script,
  sequence,
  stream,
} from '../../../src/testing.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerStream, completionBody, event, STREAM, text, USAGE_EVENT } from '../../helpers/provider.ts';

const STREAMED = { ...QUESTION, stream: true as const };
const EVENT_STREAM = { 'content-type': 'text/event-stream' };

let gateway: Gateway;

async function start(
  script: Script,
  options: Partial<ChatCompletionsRouterOptions> & { readonly provider?: Partial<ProviderOptions> } = {},
): Promise<void> {
  gateway = await startGateway(options);
  gateway.provider.script = script;
}

afterEach(async () => {
  expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
  await gateway.close();
});

/** What the official client makes of a stream: the text that it got, and what it threw. */
async function hear(): Promise<{ readonly text: string; readonly error: unknown }> {
  let heard = '';
  try {
    for await (const { choices } of await gateway.client.chat.completions.create(STREAMED))
      heard += choices[0]?.delta.content ?? '';
  } catch (error) {
    return { text: heard, error };
  }
  return { text: heard, error: undefined };
}

const WORDS = [text('Hello'), text(' there')];
const OVER_BY_CONNECTION = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n';

describe('a stream that ends before it is over', () => {
  const cuts: [string, Script][] = [
    ['by a FIN before its last chunk', stream(...WORDS, hangUp)],
    ['by a reset', stream(...WORDS, pause(20), reset)],
    [
      'short of its length',
      sequence(head(200, { ...EVENT_STREAM, 'content-length': 5000 }), ...WORDS, hangUp),
    ],
    ['cleanly, with neither a finish_reason nor [DONE]', stream(...WORDS)],
    ['by a FIN, where that is a good end', sequence(raw(OVER_BY_CONNECTION + WORDS.join('')), hangUp)],
  ];

  it.each(cuts)(
    'makes the official client throw upstream_cut, and costs what was delivered: %s',
    async (_, cut) => {
      await start(cut, { provider: { marksEnd: true } });
      const settled = gateway.nextSettled();
      const { text: heard, error } = await hear();
      expect(heard).toBe('Hello there');
      expect(error).toMatchObject({ code: 'upstream_cut', type: 'upstream_error' });
      // 13 tokens of prompt at 1,000 nano-dollars and 3 of text at 3,000, all by estimate.
      expect(await settled).toMatchObject({
        ending: 'upstream_cut',
        charged: '0.000022',
        usageSource: 'estimated',
        voided: false,
      });
    },
  );

  it.each(cuts)('ends in one error event, the last thing in it, and no [DONE]: %s', async (_, cut) => {
    await start(cut, { provider: { marksEnd: true } });
    const body = await (await gateway.post(STREAMED)).text();
    expect(body.startsWith(WORDS.join(''))).toBe(true);
    expect(body.slice(WORDS.join('').length)).toMatch(/^data: \{"error":\{[^\n]+\}\}\n\n$/);
  });

  it.each(cuts)('tells onError which provider, model and attempt it was: %s', async (_, cut) => {
    await start(cut, { provider: { marksEnd: true } });
    await hear();
    expect(gateway.errors).toHaveLength(1);
    const [error] = gateway.errors;
    expect(error).toMatchObject({
      name: 'UpstreamError',
      code: 'upstream_cut',
      provider: 'loopback',
      model: 'upstream-model',
      attempt: 1,
    });
    // What ended well at the level of HTTP has no other cause.
    const isReset = ['FIN before', 'by a reset', 'short'].some((part) => _.includes(part));
    expect(error?.cause).toEqual(isReset ? expect.objectContaining({ code: 'ECONNRESET' }) : undefined);
  });

  it('tells nothing of that to the client', async () => {
    await start(stream(...WORDS, pause(20), reset));
    const body = await (await gateway.post(STREAMED)).text();
    expect(body).toContain('upstream_cut');
    expect(body).not.toMatch(/loopback|upstream-model"?,? ?attempt|attempt|ECONNRESET/);
  });

  it('is a line on stderr with all of it, where the host has no onError', async () => {
    const written = vi.spyOn(console, 'error').mockImplementation(() => {});
    await start(stream(...WORDS, pause(20), reset), {
      hooks: { onError: undefined as unknown as Hooks['onError'] & object },
    });
    await hear();
    expect(written.mock.calls).toEqual([
      [
        'chat-completions-router:',
        expect.stringMatching(/^[\da-z]{19}$/),
        'upstream_cut: The provider closed the connection before its answer was complete. (read ECONNRESET) [loopback/upstream-model, attempt 1]',
      ],
    ]);
    written.mockRestore();
  });

  it('is distinguished from a whole one by what its target did before, where no setting says what it does', async () => {
    await start(stream(...WORDS));
    expect(await hear()).toEqual({ text: 'Hello there', error: undefined });
    gateway.provider.script = answerStream(STREAM);
    expect(await hear()).toEqual({ text: 'Hello there.', error: undefined });
    gateway.provider.script = stream(...WORDS);
    expect((await hear()).error).toMatchObject({ code: 'upstream_cut' });
  });

  it('is whole where its provider is said to mark no end', async () => {
    await start(answerStream(STREAM), { provider: { marksEnd: false } });
    await hear();
    gateway.provider.script = stream(...WORDS);
    expect(await hear()).toEqual({ text: 'Hello there', error: undefined });
    expect(gateway.settled.at(-1)).toMatchObject({ ending: 'finished' });
  });

  it('before its first word costs nothing', async () => {
    await start(stream(), { provider: { marksEnd: true } });
    const settled = gateway.nextSettled();
    expect((await hear()).error).toMatchObject({ code: 'upstream_cut' });
    expect(await settled).toMatchObject({ ending: 'upstream_cut', voided: true });
  });
});

describe('a stream that is over', () => {
  it.each([
    ['with a finish_reason and no [DONE]', [...WORDS, text('.', 'stop'), USAGE_EVENT]],
    ['with [DONE] and no finish_reason', [...WORDS, DONE]],
    ['with an error of its provider', [...WORDS, 'data: {"error":{"message":"overloaded"}}\n\n']],
  ])('gets nothing added: %s', async (_, events) => {
    await start(stream(...events), { provider: { marksEnd: true, streamUsage: 'native' } });
    expect(await (await gateway.post(STREAMED)).text()).toBe(events.join(''));
    expect(gateway.settled.at(-1)?.ending).toBe('finished');
  });
});

describe('a JSON answer', () => {
  it.each<[string, Script]>([
    ['in a last chunk', sequence(head(200), completionBody().slice(0, 40), pause(20), end)],
    [
      'where a FIN is its end',
      sequence(raw(`HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n${completionBody().slice(0, 40)}`), hangUp),
    ],
  ])('that stops before its text is reset, and costs nothing: %s', async (_, script) => {
    await start(script);
    const settled = gateway.nextSettled();
    const asked = gateway.post(QUESTION).then((response) => response.text());
    await expect(asked).rejects.toThrow('terminated');
    expect(await settled).toMatchObject({ ending: 'upstream_cut', voided: true });
  });
});

describe('a JSON answer that is cut in the middle of its text', () => {
  const BODY = completionBody({
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello there, dear reader. '.repeat(8) } }],
  });
  const HALF = BODY.slice(0, BODY.indexOf('Hello') + 104);

  it.each<[string, Script]>([
    ['by a reset', sequence(head(200, { 'content-type': 'application/json' }), HALF, pause(20), reset)],
    ['by a good end', sequence(head(200, { 'content-type': 'application/json' }), HALF, pause(20), end)],
  ])('costs the prompt and the half that was delivered, as in a stream: %s', async (_, script) => {
    await start(script);
    const settled = gateway.nextSettled();
    const asked = gateway.post(QUESTION).then((response) => response.text());
    await expect(asked).rejects.toThrow('terminated');
    // 13 tokens of prompt at 1,000 nano-dollars, and 104 characters, so 26 tokens, at 3,000: all by estimate.
    expect(await settled).toMatchObject({
      ending: 'upstream_cut',
      charged: '0.000091',
      usageSource: 'estimated',
      voided: false,
    });
  });

  it('costs the same where its client leaves', async () => {
    await start(sequence(head(200, { 'content-type': 'application/json' }), HALF, hang));
    const settled = gateway.nextSettled();
    const controller = new AbortController();
    const response = await gateway.post(QUESTION, { signal: controller.signal });
    let seen = 0;
    const reader = response.body!.getReader();
    while (seen < HALF.length) seen += (await reader.read()).value?.length ?? 0;
    controller.abort();
    expect(await settled).toMatchObject({ ending: 'client_gone', charged: '0.000091', voided: false });
  });

  it('costs nothing of a label, which is no text', async () => {
    const body = BODY.replace('"assistant"', `"${'assistant'.repeat(50)}"`);
    await start(sequence(head(200), body.slice(0, body.indexOf('assistant') + 90), pause(20), reset));
    const settled = gateway.nextSettled();
    await expect(gateway.post(QUESTION).then((response) => response.text())).rejects.toThrow('terminated');
    expect(await settled).toMatchObject({ ending: 'upstream_cut', voided: true });
  });
});

describe('a heartbeat', () => {
  const BEAT = ': keep-alive\n\n';

  it('is a comment between two events, and before the first', async () => {
    const first = Promise.withResolvers<void>();
    const second = Promise.withResolvers<void>();
    const events = [text('Hello'), text('.', 'stop'), DONE];
    await start(
      stream(
        () => first.promise,
        events[0]!,
        () => second.promise,
        ...events.slice(1),
      ),
      {
        heartbeatMs: 20,
      },
    );
    let body = '';
    for await (const bytes of (await gateway.post(STREAMED)).body!) {
      body += Buffer.from(bytes).toString();
      if (body.startsWith(BEAT)) first.resolve();
      if (body.includes(events[0] + BEAT)) second.resolve();
    }
    expect(body.replaceAll(BEAT, '')).toBe(events.join(''));
  });

  it('is skipped by the official client, and is nothing to be paid', async () => {
    await start(stream(pause(130), ...STREAM), { heartbeatMs: 20 });
    const settled = gateway.nextSettled();
    expect(await hear()).toEqual({ text: 'Hello there.', error: undefined });
    expect(await settled).toMatchObject({ charged: '0.000045', usageSource: 'upstream' });
  });

  it('never stands in an event, wherever that stops for a while', async () => {
    const whole = text('Hello', 'stop');
    await start(stream(whole.slice(0, 30), pause(150), whole.slice(30), DONE), { heartbeatMs: 30 });
    expect(await (await gateway.post(STREAMED)).text()).toBe(whole + DONE);
  });

  it('never follows [DONE]', async () => {
    await start(stream(text('.', 'stop'), DONE, pause(150)), { heartbeatMs: 30 });
    expect(await (await gateway.post(STREAMED)).text()).toBe(text('.', 'stop') + DONE);
  });

  it('is no sign of life of the provider', async () => {
    await start(stream(text('Hello'), hang), { heartbeatMs: 30, timeouts: { idleMs: 150 } });
    expect((await hear()).error).toMatchObject({ code: 'upstream_idle_timeout' });
  });

  it('leaves no byte order mark behind it', async () => {
    const first = Promise.withResolvers<void>();
    const events = text('.', 'stop') + DONE;
    await start(
      stream(() => first.promise, `\u{feff}${events}`),
      { heartbeatMs: 20 },
    );
    let body = '';
    for await (const bytes of (await gateway.post(STREAMED)).body!) {
      body += Buffer.from(bytes).toString();
      first.resolve();
    }
    expect(body.replaceAll(BEAT, '')).toBe(events);
  });

  it.each(['application/json', 'text/event-stream'])('has no place in JSON that says %s', async (type) => {
    const body = completionBody();
    await start(sequence(head(200, { 'content-type': type }), pause(150), body, end), { heartbeatMs: 30 });
    expect(await (await gateway.post(QUESTION)).text()).toBe(body);
  });

  it('is not sent to a client that does not read', async () => {
    const piece = text('x'.repeat(65_536));
    const pieces = Array.from({ length: 200 }, () => piece);
    await start(stream(...pieces, DONE), { heartbeatMs: 10 });
    const { hostname, port } = new URL(gateway.baseURL);
    const socket = net.connect(Number(port), hostname).pause();
    const body = JSON.stringify(STREAMED);
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer ${gateway.key}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await once(socket, 'readable');
    await new Promise((resolve) => setTimeout(resolve, 500));
    let got = '';
    for await (const bytes of socket) got += String(bytes);
    // Fifty would have piled up in that time; those before the socket was full may stand.
    expect(got.split('keep-alive\n\n').length - 1).toBeLessThan(10);
    expect(got).toContain('data: [DONE]');
  });

  it('is off unless it is asked for', async () => {
    await start(stream(pause(150), drip(event({ choices: [] }), { bytes: 20, everyMs: 5 }), DONE));
    expect(await (await gateway.post(STREAMED)).text()).toBe(event({ choices: [] }) + DONE);
  });
});
