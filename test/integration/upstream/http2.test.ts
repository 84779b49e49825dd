import { once } from 'node:events';
import { constants, type ServerHttp2Stream } from 'node:http2';

import { afterEach, describe, expect, it } from 'vitest';

import { undiciTransport } from '../../../src/undici.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  type Answer,
  answerCompletion,
  COMPLETION,
  type Http2Provider,
  startHttp2Provider,
} from '../../helpers/http2-provider.ts';
import { startOutboundProxy } from '../../helpers/outbound-proxy.ts';
import { DONE, text, USAGE_EVENT } from '../../helpers/provider.ts';

const closing: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

async function start(
  ...given: Parameters<typeof startHttp2Provider>
): Promise<{ provider: Http2Provider; gateway: Gateway }> {
  const provider = await startHttp2Provider(...given);
  closing.push(() => provider.close());
  const gateway = await startGateway({
    provider: { baseURL: provider.baseURL, tls: { ca: provider.ca } },
    transport: undiciTransport(),
    retries: false,
  });
  closing.push(() => gateway.close());
  return { provider, gateway };
}

const STREAMED = { ...QUESTION, stream: true };
const EVENT_STREAM = { ':status': 200, 'content-type': 'text/event-stream' };
const REST = text('b') + text('', 'stop') + USAGE_EVENT + DONE;

/** Streams that have begun, and go on when they are told to. */
function held(): { answer: Answer; streams: ServerHttp2Stream[] } {
  const streams: ServerHttp2Stream[] = [];
  return {
    streams,
    answer: (stream) => {
      stream.respond(EVENT_STREAM);
      stream.write(text('a'));
      streams.push(stream);
    },
  };
}

async function post(gateway: Gateway, body: unknown): Promise<{ status: number; text: string }> {
  const response = await gateway.post(body);
  return { status: response.status, text: await response.text() };
}

describe('a provider that offers HTTP/2', () => {
  it('gets many streams over one connection, and answers as over HTTP/1.1', async () => {
    const { provider, gateway } = await start(answerCompletion);
    for (let i = 0; i < 3; i++) {
      expect(await post(gateway, QUESTION)).toEqual({ status: 200, text: COMPLETION });
    }
    await Promise.all(Array.from({ length: 20 }, () => post(gateway, QUESTION)));
    expect(provider.requests).toBe(23);
    expect(provider.sessions).toHaveLength(1);
  });

  it('gets a burst of 300 streams over as few connections as it allows', async () => {
    const { streams, answer } = held();
    const { provider, gateway } = await start(answer, { maxConcurrentStreams: 50 });
    const answers = Array.from({ length: 300 }, () => post(gateway, STREAMED));
    await expect.poll(() => streams.length).toBe(300);
    expect(provider.sessions.length).toBe(6);
    for (const stream of streams) stream.end(REST);
    for (const { status, text: body } of await Promise.all(answers)) {
      expect(status).toBe(200);
      expect(body).toContain('[DONE]');
    }
    await expect.poll(() => gateway.settled.length).toBe(300);
    expect(gateway.settled.every(({ voided }) => !voided)).toBe(true);
  });

  it('ends a connection by GOAWAY: its streams go on, new requests get another', async () => {
    const { streams, answer } = held();
    const { provider, gateway } = await start(answer);
    const first = post(gateway, STREAMED);
    await expect.poll(() => streams.length).toBe(1);
    provider.sessions[0]?.goaway(constants.NGHTTP2_NO_ERROR, streams[0]?.id);
    const second = post(gateway, STREAMED);
    await expect.poll(() => streams.length).toBe(2);
    expect(provider.sessions).toHaveLength(2);
    for (const stream of streams) stream.end(REST);
    for (const { text: body } of [await first, await second]) expect(body).toContain('[DONE]');
  });

  it.each([
    [
      'REFUSED_STREAM',
      (stream: ServerHttp2Stream) => {
        stream.close(constants.NGHTTP2_REFUSED_STREAM);
      },
    ],
    [
      'a GOAWAY that leaves it out',
      (stream: ServerHttp2Stream) => {
        stream.session?.goaway(constants.NGHTTP2_NO_ERROR, (stream.id ?? 0) - 2);
      },
    ],
    [
      'a GOAWAY with an error that leaves it out',
      (stream: ServerHttp2Stream) => {
        stream.session?.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM, (stream.id ?? 0) - 2);
      },
    ],
  ])('is asked again, once, by a request that it refused with %s', async (_how, refuse) => {
    const { provider, gateway } = await start(answerCompletion);
    await post(gateway, QUESTION);
    provider.answer = (stream): void => {
      provider.answer = answerCompletion;
      refuse(stream);
    };
    expect(await post(gateway, QUESTION)).toEqual({ status: 200, text: COMPLETION });
    expect(provider.requests).toBe(3);
    await expect.poll(() => gateway.settled.length).toBe(2);
  });

  it('is asked no third time', async () => {
    const { provider, gateway } = await start((stream) => {
      stream.close(constants.NGHTTP2_REFUSED_STREAM);
    });
    expect((await post(gateway, QUESTION)).status).toBe(502);
    expect(provider.requests).toBe(2);
    await expect.poll(() => gateway.settled).toMatchObject([{ voided: true }]);
  });

  it.each<[string, (stream: ServerHttp2Stream, provider: Http2Provider) => void]>([
    ['by a reset', (stream) => stream.destroy(new Error('reset'))],
    ['by a cancellation', (stream) => stream.destroy(new DOMException('', 'AbortError'))],
    ['by its connection', (_stream, { sessions }) => sessions[0]?.destroy()],
    ['by the socket', (_stream, { sockets }) => sockets[0]?.destroy()],
  ])('breaks a stream %s, which never looks finished, and is not asked again', async (_how, cut) => {
    const { provider, gateway } = await start((stream) => {
      stream.respond(EVENT_STREAM);
      stream.write(text('a'), () => {
        setImmediate(() => {
          cut(stream, provider);
        });
      });
    });
    const { text: body } = await post(gateway, STREAMED);
    expect(body).toContain('"a"');
    expect(body).toContain('upstream_cut');
    expect(body).not.toContain('[DONE]');
    expect(provider.requests).toBe(1);
    await expect.poll(() => gateway.settled).toMatchObject([{ voided: false }]);
  });

  it('has a stream cancelled whose client leaves, and keeps the connection', async () => {
    const { streams, answer } = held();
    const { provider, gateway } = await start(answer);
    const leaving = new AbortController();
    const response = await gateway.post(STREAMED, { signal: leaving.signal });
    await response.body?.getReader().read();
    const closed = once(streams[0]!, 'close');
    leaving.abort();
    await closed;
    expect(streams[0]?.rstCode).toBe(constants.NGHTTP2_CANCEL);
    provider.answer = answerCompletion;
    expect((await post(gateway, QUESTION)).status).toBe(200);
    expect(provider.sessions).toHaveLength(1);
  });

  it('is not read on while a client does not read', async () => {
    const line = text('x'.repeat(10_000));
    let written = 0;
    const { gateway } = await start((stream) => {
      stream.respond(EVENT_STREAM);
      const more = (): void => {
        while (stream.writable && written < 50_000_000) {
          written += line.length;
          if (!stream.write(line)) {
            stream.once('drain', more);
            return;
          }
        }
      };
      more();
    });
    const response = await gateway.post(STREAMED);
    let before = -1;
    await expect
      .poll(
        () => {
          const isStill = written === before;
          before = written;
          return isStill;
        },
        { interval: 200 },
      )
      .toBe(true);
    expect(written).toBeLessThan(20_000_000);
    await response.body?.cancel();
  });

  it('gets a megabyte whole and in order, and its answer arrives so, also when neither side reads for a while', async () => {
    const content = Array.from({ length: 150_000 }, (_, n) => `${n} `).join('');
    const received: Buffer[] = [];
    let isFull = (): void => {};
    const filled = new Promise<void>((resolve) => (isFull = resolve));
    const { provider, gateway } = await start(answerCompletion);
    await post(gateway, QUESTION);
    provider.answer = (stream): void => {
      stream.on('data', (chunk: Buffer) => received.push(chunk));
      stream.once('end', () => {
        stream.respond(EVENT_STREAM);
        let sent = 0;
        const more = (): void => {
          while (sent < content.length) {
            const part = content.slice(sent, (sent += 10_000));
            if (stream.write(text(part))) continue;
            stream.once('drain', more);
            isFull();
            return;
          }
          stream.end(REST);
        };
        more();
      });
    };
    const response = await gateway.post({ ...STREAMED, messages: [{ role: 'user', content }] });
    await filled;
    const answer = await response.text();
    const asked = JSON.parse(Buffer.concat(received).toString()) as typeof QUESTION;
    expect(asked.messages[0]?.content === content).toBe(true);
    const parts = [...answer.matchAll(/"content":"([^"]*)"/g)].map(([, part]) => part);
    expect(parts.join('') === `${content}b`).toBe(true);
    expect(answer).toContain('[DONE]');
  });

  it('may have interim answers before its own', async () => {
    const { gateway } = await start((stream) => {
      stream.additionalHeaders({ ':status': 103, link: '</a>' });
      answerCompletion(stream, undefined as never);
    });
    expect(await post(gateway, QUESTION)).toEqual({ status: 200, text: COMPLETION });
  });

  it('may not have them without end', async () => {
    const { gateway } = await start((stream) => {
      for (let i = 0; i < 40; i++) stream.additionalHeaders({ ':status': 103, link: `</${i}>` });
      answerCompletion(stream, undefined as never);
    });
    const { status, text: body } = await post(gateway, QUESTION);
    expect(status).toBe(502);
    expect(body).toContain('interim');
  });

  it('that refuses all streams for now is waited for', async () => {
    const { provider, gateway } = await start(answerCompletion, { maxConcurrentStreams: 1 });
    const { streams, answer } = held();
    provider.answer = answer;
    const first = post(gateway, STREAMED);
    await expect.poll(() => streams.length).toBe(1);
    provider.answer = answerCompletion;
    expect((await post(gateway, QUESTION)).status).toBe(200);
    streams[0]?.end(REST);
    expect((await first).text).toContain('[DONE]');
  });
});

describe('connections with HTTP/2', () => {
  async function startWith(
    connection: object,
    ...given: Parameters<typeof startHttp2Provider>
  ): Promise<{ provider: Http2Provider; gateway: Gateway }> {
    const provider = await startHttp2Provider(...given);
    closing.push(() => provider.close());
    const gateway = await startGateway({
      provider: { baseURL: provider.baseURL, tls: { ca: provider.ca }, ...connection },
      transport: undiciTransport(),
      retries: false,
    });
    closing.push(() => gateway.close());
    return { provider, gateway };
  }

  it('maxConnections bounds connections, and a request waits for a free stream', async () => {
    const { streams, answer } = held();
    const { provider, gateway } = await startWith({ maxConnections: 2 }, answer, { maxConcurrentStreams: 3 });
    const answers = Array.from({ length: 8 }, () => post(gateway, STREAMED));
    await expect.poll(() => streams.length).toBe(6);
    streams[0]?.end(REST);
    await expect.poll(() => streams.length).toBe(7);
    streams[1]?.end(REST);
    await expect.poll(() => streams.length).toBe(8);
    for (const stream of streams.slice(2)) stream.end(REST);
    for (const { status } of await Promise.all(answers)) expect(status).toBe(200);
    expect(provider.sessions).toHaveLength(2);
  });

  it('keepWarm has a connection before the first request, which uses it', async () => {
    const { provider, gateway } = await startWith({ keepWarm: 1, maxConnections: 1 }, answerCompletion);
    await gateway.router.ready();
    await expect.poll(() => provider.sessions.length).toBe(1);
    expect((await post(gateway, QUESTION)).status).toBe(200);
    expect(provider.sessions).toHaveLength(1);
  });

  it('are tunnels of an outbound proxy', async () => {
    const proxy = await startOutboundProxy();
    closing.push(() => proxy.close());
    const { provider, gateway } = await startWith(
      { proxy: `http://127.0.0.1:${proxy.port}` },
      answerCompletion,
    );
    await Promise.all(Array.from({ length: 5 }, () => post(gateway, QUESTION)));
    expect(provider.requests).toBe(5);
    expect(provider.sessions).toHaveLength(1);
    expect(proxy.asked).toHaveLength(1);
  });
});

it('a provider that allows no streams at all cannot be reached, and is not connected to again and again', async () => {
  const { provider, gateway } = await start(answerCompletion, { maxConcurrentStreams: 0 });
  const { status, text: body } = await post(gateway, QUESTION);
  expect(status).toBe(502);
  expect(body).toContain('upstream_unreachable');
  expect(provider.sessions).toHaveLength(1);
});

describe('a provider with https that offers HTTP/1.1 only', () => {
  it('is used over HTTP/1.1, also by requests that waited for the first connection', async () => {
    const { provider, gateway } = await start(answerCompletion, {}, true);
    const answers = await Promise.all(Array.from({ length: 10 }, () => post(gateway, QUESTION)));
    for (const answer of answers) expect(answer).toEqual({ status: 200, text: COMPLETION });
    expect(await post(gateway, QUESTION)).toEqual({ status: 200, text: COMPLETION });
    expect(provider.requests).toBe(11);
    expect(provider.sessions).toHaveLength(0);
  });
});
