import { once } from 'node:events';
import * as net from 'node:net';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { MemoryStore, StoreUnavailableError } from '../../../src/index.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  answerJson,
  beginStream,
  completionBody,
  DONE,
  sleep,
  STREAM,
  text,
} from '../../helpers/provider.ts';

describe('connections to a provider', () => {
  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway();
  });

  afterEach(async () => {
    await gateway.close();
  });

  it('are kept and used again', async () => {
    for (let i = 0; i < 10; i++) await gateway.client.chat.completions.create(QUESTION);
    expect(gateway.provider.connections()).toBe(1);
  });

  it('are kept after a stream whose client leaves at [DONE]', async () => {
    gateway.provider.script = (response) => {
      beginStream(response);
      response.end(STREAM.join(''));
    };
    for (let i = 0; i < 5; i++) {
      const settled = gateway.nextSettled();
      for await (const _ of await gateway.client.chat.completions.create({ ...QUESTION, stream: true }));
      await settled;
    }
    expect(gateway.provider.connections()).toBe(1);
  });

  it('may be closed by the provider at any time: the request is sent once more, and charged once', async () => {
    // Answers, says nothing of closing, and closes: the next request finds a dead connection.
    gateway.provider.script = (response) => {
      answerJson(completionBody())(response, gateway.provider.received[0]!);
      const { socket } = response;
      response.once('finish', () => setImmediate(() => socket?.destroy()));
    };
    for (let i = 0; i < 200; i++) {
      const response = await gateway.post(QUESTION);
      expect(response.status).toBe(200);
      await response.text();
    }
    await gateway.router.close();
    expect(gateway.settled.filter(({ charged }) => charged === '0.000045')).toHaveLength(200);
  });

  it('have no limit of their own: 300 streams run at once', async () => {
    const { promise: allRun, resolve: tell } = Promise.withResolvers<void>();
    gateway.provider.script = async (response) => {
      beginStream(response);
      response.write(text('Hello'));
      await allRun;
      response.end(DONE);
    };
    const streams = await Promise.all(
      Array.from({ length: 300 }, () => gateway.post({ ...QUESTION, stream: true, max_tokens: 10 })),
    );
    expect(streams.every(({ status }) => status === 200)).toBe(true);
    expect(gateway.provider.received).toHaveLength(300);
    tell();
    await Promise.all(streams.map((stream) => stream.text()));
  });

  it('are not left behind by clients that give up at any moment', async () => {
    await gateway.close();
    gateway = await startGateway({ provider: { onDisconnect: 'abort' } });
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(text('Hello'));
    };
    const moments = ['at once', 'when the provider has it', 'with the head'] as const;
    for (let i = 0; i < 60; i++) {
      const controller = new AbortController();
      const moment = moments[i % moments.length];
      const received = moment === 'when the provider has it' ? gateway.provider.next() : undefined;
      const asked = gateway
        .post({ ...QUESTION, stream: true, max_tokens: 10 }, { signal: controller.signal })
        .catch(() => 'left');
      await received;
      if (moment === 'with the head') await asked;
      controller.abort();
      await asked;
    }
    await expect.poll(() => gateway.provider.openSockets()).toBe(0);
    await expect.poll(async () => (await gateway.router.credits.balance('acct')).held).toBe('0.00');
  });

  it('are refused with an error that says so', async () => {
    await gateway.provider.close();
    gateway.provider.close = async () => {};
    const asked = gateway.client.chat.completions.create(QUESTION);
    await expect(asked).rejects.toMatchObject({ status: 502, code: 'upstream_unreachable' });
    expect(gateway.errors[0]?.cause).toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('that do not speak HTTP are an error that says so', async () => {
    gateway.provider.script = (response) => response.socket?.end('hello\r\n\r\n');
    const asked = gateway.client.chat.completions.create(QUESTION);
    await expect(asked).rejects.toMatchObject({ status: 502, code: 'upstream_invalid_response' });
  });
});

describe('a provider’s key', () => {
  it('is asked for on every request, and may come from a promise', async () => {
    let asked = 0;
    const gateway = await startGateway({ provider: { apiKey: async () => `sk-${++asked}` } });
    await gateway.post(QUESTION);
    await gateway.post(QUESTION);
    expect(gateway.provider.received.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer sk-1',
      'Bearer sk-2',
    ]);
    await gateway.close();
  });

  it.each([
    ['is missing', (): undefined => undefined],
    [
      'can not be had',
      (): never => {
        throw new Error('vault sealed');
      },
    ],
    ['would break the header', (): string => 'sk\r\nx: y'],
  ])('fails the request when it %s, and nothing is sent', async (_name, apiKey) => {
    const gateway = await startGateway({ provider: { apiKey } });
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(502);
    expect(await response.json()).toMatchObject({ error: { code: 'upstream_refused_credentials' } });
    expect(gateway.provider.received).toHaveLength(0);
    expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
    await gateway.close();
  });

  it('goes where the provider wants it, with its headers and query', async () => {
    const gateway = await startGateway({
      provider: {
        apiKey: 'azure-key',
        auth: { header: 'api-key' },
        headers: { 'X-Team': 'red' },
        query: { 'api-version': '2024-10-21' },
      },
    });
    await gateway.post(QUESTION);
    const [received] = gateway.provider.received;
    expect(received?.url).toBe('/v1/chat/completions?api-version=2024-10-21');
    expect(received?.headers).toMatchObject({ 'api-key': 'azure-key', 'x-team': 'red' });
    expect(received?.headers.authorization).toBeUndefined();
    await gateway.close();
  });
});

describe('the four clocks', () => {
  it.each([
    ['first byte', { firstByteMs: 150 }, 'upstream_first_byte_timeout'],
    ['total', { totalMs: 150 }, 'upstream_total_timeout'],
  ])('%s: a silent provider is a 504', async (_name, timeouts, code) => {
    const gateway = await startGateway({ timeouts });
    gateway.provider.script = () => {};
    const asked = gateway.client.chat.completions.create(QUESTION);
    await expect(asked).rejects.toMatchObject({ status: 504, code });
    await gateway.provider.received[0]!.aborted;
    await gateway.close();
  });

  it('connect: a server that accepts and never shakes hands is a 504', async () => {
    const mute = net.createServer(() => {}).listen(0, '127.0.0.1');
    await once(mute, 'listening');
    const { port } = mute.address() as net.AddressInfo;
    const gateway = await startGateway({
      provider: { baseURL: `https://127.0.0.1:${port}/v1` },
      timeouts: { connectMs: 150 },
    });
    const asked = gateway.client.chat.completions.create(QUESTION);
    await expect(asked).rejects.toMatchObject({ status: 504, code: 'upstream_connect_timeout' });
    await gateway.close();
    mute.close();
  });

  it('idle: a stream that goes silent ends with an error event', async () => {
    const gateway = await startGateway({ timeouts: { idleMs: 150 } });
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(text('Hello'));
    };
    const settled = gateway.nextSettled();
    const stream = await gateway.client.chat.completions.create({ ...QUESTION, stream: true });
    const read = async (): Promise<void> => {
      for await (const _ of stream);
    };
    await expect(read()).rejects.toMatchObject({ code: 'upstream_idle_timeout' });
    expect(await settled).toMatchObject({ ending: 'timeout', voided: false });
    await gateway.close();
  });

  it('total: a stream that goes on for too long ends with an error event, however alive it is', async () => {
    const gateway = await startGateway({ timeouts: { idleMs: 10_000, totalMs: 300 } });
    gateway.provider.script = async (response) => {
      beginStream(response);
      for (; !response.destroyed; await sleep(20)) response.write(text('Hello'));
    };
    const settled = gateway.nextSettled();
    const stream = await gateway.client.chat.completions.create({ ...QUESTION, stream: true });
    const read = async (): Promise<void> => {
      for await (const _ of stream);
    };
    await expect(read()).rejects.toMatchObject({ code: 'upstream_total_timeout' });
    expect(await settled).toMatchObject({ ending: 'timeout', voided: false });
    await gateway.close();
  });

  it('idle: a slow but living stream is left alone', async () => {
    const gateway = await startGateway({ timeouts: { idleMs: 1000 } });
    gateway.provider.script = async (response) => {
      beginStream(response);
      // Longer than that altogether, and each pause far shorter.
      for (let i = 0; i < 15; i++) {
        await sleep(80);
        response.write(': still here\n\n');
      }
      response.end(STREAM.join(''));
    };
    expect(await (await gateway.post({ ...QUESTION, stream: true })).text()).toContain('[DONE]');
    await gateway.close();
  });

  it('idle: a client that does not read is not the provider’s silence', async () => {
    const gateway = await startGateway({ timeouts: { idleMs: 150 } });
    gateway.provider.script = async (response) => {
      beginStream(response);
      const piece = text('x'.repeat(65_536));
      for (let i = 0; i < 400; i++) {
        if (!response.write(piece)) await new Promise((resolve) => response.once('drain', resolve));
      }
      response.end(DONE);
    };
    const response = await gateway.post({ ...QUESTION, stream: true });
    await sleep(600);
    expect((await response.text()).endsWith(DONE)).toBe(true);
    await gateway.close();
  });
});

describe('close()', () => {
  it('lets running streams finish, refuses new requests, and posts every charge', async () => {
    const gateway = await startGateway();
    const { promise: refused, resolve: tell } = Promise.withResolvers<void>();
    gateway.provider.script = async (response) => {
      beginStream(response);
      response.write(STREAM[0]);
      await refused;
      response.end(STREAM.slice(1).join(''));
    };
    const running = await gateway.post({ ...QUESTION, stream: true });
    const closed = gateway.router.close();
    const late = await gateway.post(QUESTION);
    tell();
    expect(late.status).toBe(503);
    expect(await late.json()).toMatchObject({ error: { code: 'router_closing' } });
    expect((await running.text()).endsWith(DONE)).toBe(true);
    await closed;
    expect(gateway.settled).toMatchObject([{ charged: '0.000045', ending: 'finished' }]);
    await gateway.close();
  });

  it('does not wait for ever for a host that does not answer', async () => {
    const { promise: authenticating, resolve: tell } = Promise.withResolvers<void>();
    const authenticate = (): Promise<never> => {
      tell();
      return new Promise(() => {});
    };
    const gateway = await startGateway({ closeTimeoutMs: 50, authenticate });
    const controller = new AbortController();
    const asked = gateway.post(QUESTION, { signal: controller.signal }).catch(() => 'left');
    await authenticating;
    await gateway.router.close();
    controller.abort();
    expect(await asked).toBe('left');
    await gateway.close();
  });

  it('says so, when a store does not take the charges in time', async () => {
    class DeafStore extends MemoryStore {
      override settle(): Promise<never> {
        return Promise.reject(new StoreUnavailableError('unknown'));
      }
    }
    const errors: Error[] = [];
    const store = new DeafStore();
    const gateway = await startGateway({
      store,
      closeTimeoutMs: 100,
      hooks: { onError: (error) => errors.push(error) },
    });
    expect((await gateway.post(QUESTION)).status).toBe(200);
    await gateway.router.close();
    expect(errors.at(-1)?.message).toBe('Charges not posted when the router was closed: 1');
    expect(errors[0]).toBeInstanceOf(StoreUnavailableError);
    await gateway.close();
  });

  it('aborts what has not finished in time, and says so to its client', async () => {
    const gateway = await startGateway({ closeTimeoutMs: 100 });
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(text('Hello'));
    };
    const running = await gateway.post({ ...QUESTION, stream: true });
    await gateway.router.close();
    expect(await running.text()).toContain('shut down');
    expect(gateway.settled).toMatchObject([{ ending: 'closed', usageSource: 'estimated' }]);
    await gateway.close();
  });
});
