import { once } from 'node:events';
import { constants, type ServerHttp2Stream } from 'node:http2';
import * as net from 'node:net';
import { setTimeout } from 'node:timers/promises';

import { afterEach, describe, expect, it } from 'vitest';

import type { ProviderOptions } from '../../../src/index.ts';
import { undiciTransport } from '../../../src/undici.ts';
import {
  type Gateway,
  type GatewayOptions,
  QUESTION,
  startGateway,
  untilStill,
} from '../../helpers/gateway.ts';
import {
  type Answer,
  answerCompletion,
  COMPLETION,
  startHttp2Provider,
} from '../../helpers/http2-provider.ts';
import { DONE, text, USAGE_EVENT } from '../../helpers/provider.ts';
import {
  answerRaw,
  type RawHttp2Options,
  type RawHttp2Provider,
  type RawStream,
  startRawHttp2Provider,
} from '../../helpers/raw-http2.ts';
import { startRelay } from '../../helpers/redis-relay.ts';

const closing: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

const STREAMED = { ...QUESTION, stream: true };

async function startBefore(
  provider: { readonly baseURL: string; readonly ca: string },
  options: Partial<ProviderOptions> = {},
  timeouts: GatewayOptions['timeouts'] = {},
): Promise<Gateway> {
  const { baseURL, ca } = provider;
  const gateway = await startGateway({
    provider: { baseURL, tls: { ca }, ...options },
    transport: undiciTransport(),
    retries: false,
    timeouts,
  });
  closing.push(() => gateway.close());
  return gateway;
}

async function startRaw(options: RawHttp2Options): Promise<RawHttp2Provider> {
  const provider = await startRawHttp2Provider(options);
  closing.push(() => provider.close());
  return provider;
}

async function startNode(
  ...given: Parameters<typeof startHttp2Provider>
): ReturnType<typeof startHttp2Provider> {
  const provider = await startHttp2Provider(...given);
  closing.push(() => provider.close());
  return provider;
}

const portOf = ({ baseURL }: { readonly baseURL: string }): number => Number(new URL(baseURL).port);

async function ask(gateway: Gateway, body: unknown = QUESTION): Promise<{ status: number; code: unknown }> {
  const response = await gateway.post(body);
  const answer = await response.text();
  return {
    status: response.status,
    code: answer.startsWith('{') ? JSON.parse(answer).error?.code : undefined,
  };
}

const OK = { status: 200, code: undefined };
const FINISHED = { ending: 'finished' };

describe('a connection whose provider never sends its settings', () => {
  it('fails the request that waits for it, and another one serves the next', async () => {
    const provider = await startRaw({ isSilent: (connection) => connection === 1, onRequest: answerRaw });
    const gateway = await startBefore(provider, {}, { connectMs: 300 });
    expect(await ask(gateway)).toEqual({ status: 504, code: 'upstream_connect_timeout' });
    await expect.poll(() => ask(gateway)).toEqual(OK);
    expect(provider.connections()).toBe(2);
  });

  it('is not all that the request waits for: another one is opened a second later', async () => {
    const provider = await startRaw({ isSilent: (connection) => connection === 1, onRequest: answerRaw });
    const gateway = await startBefore(provider);
    expect(await ask(gateway)).toEqual(OK);
    expect(provider.connections()).toBe(2);
  });

  it.each([
    ['of a request', {}],
    ['that is kept warm', { keepWarm: 1 }],
  ])('is closed with the router: one %s', async (_kind, options) => {
    const provider = await startRaw({ isSilent: () => true });
    // Longer than `expect.poll` waits: it is the router's close that closes it.
    const gateway = await startBefore(provider, { ...options, timeouts: { connectMs: 60_000 } });
    await gateway.router.ready();
    const leaving = new AbortController();
    const asking = 'keepWarm' in options ? undefined : gateway.post(QUESTION, { signal: leaving.signal });
    await expect.poll(() => provider.openConnections()).toBe(1);
    leaving.abort();
    await asking?.catch(() => {});
    await gateway.router.close();
    await expect.poll(() => provider.openConnections()).toBe(0);
  });
});

it('a connection that goes dead without a word is left after one timeout', async () => {
  const provider = await startNode(answerCompletion);
  const relay = await startRelay(portOf(provider));
  closing.push(() => relay.close());
  const gateway = await startBefore(
    { ...provider, baseURL: `https://localhost:${relay.port}/v1` },
    {},
    { connectMs: 5000, firstByteMs: 500 },
  );
  expect(await ask(gateway)).toEqual(OK);
  relay.silence();
  expect(await ask(gateway)).toEqual({ status: 504, code: 'upstream_first_byte_timeout' });
  expect(await ask(gateway)).toEqual(OK);
  expect(provider.sessions).toHaveLength(2);
});

describe('RST_STREAM with NO_ERROR', () => {
  const cut =
    (status: number, headers: Readonly<Record<string, string>>, part: string) => (stream: RawStream) => {
      stream.head(status, headers);
      stream.data(part);
      stream.reset(constants.NGHTTP2_NO_ERROR);
    };

  it('in the midst of a stream is a cut, and no end', async () => {
    const provider = await startRaw({
      onRequest: cut(200, { 'content-type': 'text/event-stream' }, text('half')),
    });
    const gateway = await startBefore(provider);
    const body = await (await gateway.post(STREAMED)).text();
    expect(body).toContain('"half"');
    expect(body).toContain('"code":"upstream_cut"');
    expect(body).not.toContain('[DONE]');
    await expect.poll(() => gateway.settled).toMatchObject([{ ending: 'upstream_cut' }]);
  });

  it('in the midst of an error gives the client no complete answer', async () => {
    const headers = { 'content-type': 'application/json', 'content-length': '300' };
    const provider = await startRaw({ onRequest: cut(400, headers, '{"error":{"message":"bad') });
    const gateway = await startBefore(provider);
    const asking = gateway.post(QUESTION, { signal: AbortSignal.timeout(10_000) });
    await expect(asking.then((response) => response.text())).rejects.toThrow(/fetch failed|terminated/);
    expect(gateway.errors).toMatchObject([{ code: 'upstream_cut' }]);
  });

  it('after a whole answer changes nothing', async () => {
    const provider = await startRaw({
      onRequest: (stream) => {
        answerRaw(stream);
        stream.reset(constants.NGHTTP2_NO_ERROR);
      },
    });
    const gateway = await startBefore(provider);
    for (let n = 0; n < 3; n++) {
      const response = await gateway.post(QUESTION);
      expect([response.status, await response.text()]).toEqual([200, COMPLETION]);
    }
    expect(provider.connections()).toBe(1);
    await expect.poll(() => gateway.settled).toMatchObject([FINISHED, FINISHED, FINISHED]);
  });
});

it('a provider that answers long requests early, and reads no more of them, has none of its streams kept', async () => {
  const error = '{"error":{"message":"too long"}}';
  const provider = await startRaw({
    maxConcurrentStreams: 3,
    onHead: (stream) => {
      stream.head(413, { 'content-type': 'application/json', 'content-length': String(error.length) });
      stream.data(error, true);
    },
  });
  const gateway = await startBefore(provider, { maxConnections: 1 }, { connectMs: 2000 });
  const long = { ...QUESTION, metadata: { text: 'y'.repeat(300_000) } };
  for (let n = 0; n < 6; n++) expect((await ask(gateway, long)).status).toBe(413);
  expect(provider.connections()).toBe(1);
});

it('clients that leave at the limit of streams cost no other request', async () => {
  const rest = text('b') + text('', 'stop') + USAGE_EVENT + DONE;
  const held: ServerHttp2Stream[] = [];
  const hold: Answer = (stream) => {
    stream.respond({ ':status': 200, 'content-type': 'text/event-stream' });
    stream.write(text('a'));
    held.push(stream);
  };
  const finish: Answer = (stream) => {
    stream.respond({ ':status': 200, 'content-type': 'text/event-stream' });
    stream.end(text('a') + rest);
  };
  const provider = await startNode(hold, { maxConcurrentStreams: 5 });
  const gateway = await startBefore(provider, { maxConnections: 1 }, { connectMs: 20_000 });
  for (let round = 1; round <= 3; round++) {
    provider.answer = hold;
    const leaving = new AbortController();
    const { signal } = leaving;
    const left = Array.from({ length: 5 }, () => gateway.post(STREAMED, { signal }));
    await expect.poll(() => held.length).toBe(5 * round);
    provider.answer = finish;
    const staying = Array.from({ length: 5 }, () => ask(gateway, STREAMED));
    await expect.poll(() => gateway.router.requests().length).toBe(10);
    leaving.abort();
    for (const answer of await Promise.all(staying)) expect(answer).toEqual(OK);
    await Promise.allSettled(left);
    await expect.poll(() => gateway.router.requests().length).toBe(0);
  }
  expect(provider.sessions).toHaveLength(1);
});

describe.each([
  ['reset', (socket: net.Socket) => socket.resetAndDestroy()],
  ['end', (socket: net.Socket) => socket.end()],
])('a connection that dies by %s as a request is sent is replaced for it', (_how, die) => {
  it('if it was kept', async () => {
    const { gateway, relay, provider } = await startDying(die);
    expect(await ask(gateway)).toEqual(OK);
    relay.isStale = true;
    expect(await ask(gateway)).toEqual(OK);
    expect(relay.connections).toBe(2);
    expect(provider.requests).toBe(2);
  });

  it('if it was warm', async () => {
    const { gateway, relay, provider } = await startDying(die, { keepWarm: 1 });
    await gateway.router.ready();
    await expect.poll(() => provider.sessions).toHaveLength(1);
    await untilStill(gateway, () => relay.bytes);
    relay.isStale = true;
    expect(await ask(gateway)).toEqual(OK);
    expect(provider.requests).toBe(1);
  });
});

/** A provider behind a relay. Once `isStale` is set, the first connection dies with the next bytes of the router. */
async function startDying(
  die: (socket: net.Socket) => unknown,
  options: Partial<ProviderOptions> = {},
): Promise<{
  gateway: Gateway;
  relay: { isStale: boolean; connections: number; bytes: number };
  provider: Awaited<ReturnType<typeof startNode>>;
}> {
  const provider = await startNode(answerCompletion);
  const relay = { isStale: false, connections: 0, bytes: 0 };
  const server = net.createServer((client) => {
    relay.connections += 1;
    const isFirst = relay.connections === 1;
    const upstream = net.connect(portOf(provider), '127.0.0.1');
    client.on('data', (bytes) => {
      relay.bytes += bytes.length;
      if (!relay.isStale || !isFirst) {
        upstream.write(bytes);
        return;
      }
      die(client);
      upstream.destroy();
    });
    upstream.pipe(client);
    for (const socket of [client, upstream]) socket.on('error', () => {});
    client.once('close', () => upstream.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(async () => server.close());
  const { port } = server.address() as net.AddressInfo;
  const gateway = await startBefore({ ...provider, baseURL: `https://localhost:${port}/v1` }, options);
  return { gateway, relay, provider };
}

it('an outbound proxy that hangs leaves each request its own clock', async () => {
  const provider = await startNode(answerCompletion);
  let opened = 0;
  const proxy = net.createServer((socket) => {
    opened += 1;
    closing.push(async () => socket.destroy());
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  closing.push(async () => proxy.close());
  const { port } = proxy.address() as net.AddressInfo;
  const gateway = await startBefore(provider, { proxy: `http://127.0.0.1:${port}` }, { connectMs: 300 });
  const late = { status: 504, code: 'upstream_connect_timeout' };
  expect(await ask(gateway)).toEqual(late);
  // The first connection is given up a second after its time, while this waits.
  await setTimeout(850);
  expect(await ask(gateway)).toEqual(late);
  expect(opened).toBeGreaterThan(1);
});

it('a header that HTTP/2 forbids, as http2-settings, is not sent and breaks nothing', async () => {
  const provider = await startNode(answerCompletion);
  const gateway = await startBefore(provider, { headers: { 'http2-settings': 'x', 'x-a': 'b' } });
  expect(await ask(gateway)).toEqual(OK);
  const sent: unknown[] = [];
  provider.sessions[0]?.on('stream', (_stream, headers) => sent.push(headers));
  expect(await ask(gateway)).toEqual(OK);
  expect(provider.sessions).toHaveLength(1);
  expect(sent).toMatchObject([{ 'x-a': 'b' }]);
  expect(sent[0]).not.toHaveProperty('http2-settings');
});

it('twenty interim answers with status 100 count once each, and are not too many', async () => {
  const provider = await startRaw({
    onRequest: (stream) => {
      for (let n = 0; n < 20; n++) stream.head(100);
      answerRaw(stream);
    },
  });
  expect(await ask(await startBefore(provider))).toEqual(OK);
});

it('an answer may have 200 headers', async () => {
  const many = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`x-${n}`, 'a']));
  const provider = await startRaw({
    onRequest: (stream) => {
      stream.head(200, { 'content-type': 'application/json', ...many });
      stream.data(COMPLETION, true);
    },
  });
  expect(await ask(await startBefore(provider))).toEqual(OK);
});
