import { once } from 'node:events';
import * as http from 'node:http';
import * as net from 'node:net';
import { zstdCompressSync } from 'node:zlib';

import express from 'express';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';

import { type Gateway, listen, QUESTION, startGateway } from '../helpers/gateway.ts';
import { answerStream, beginStream, completionBody, DONE, event, text } from '../helpers/provider.ts';

describe('an answer that breaks at once', () => {
  it.each([
    ['a bad chunk size', 'transfer-encoding: chunked\r\n\r\nZZ\r\n'],
    ['a good chunk and a bad one', 'transfer-encoding: chunked\r\n\r\n1\r\n{\r\nZZ\r\n'],
    ['more bytes than it said', 'content-length: 5\r\n\r\n{"a":12'],
    ['status 101', ''],
  ])('in the packet of its head ends the request: %s', async (name, rest) => {
    const gateway = await startGateway();
    const status =
      name === 'status 101'
        ? '101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'
        : '200 OK\r\n';
    gateway.provider.script = (response) => void response.socket?.end(`HTTP/1.1 ${status}${rest}`);
    const settled = gateway.nextSettled();
    const outcome = await gateway.post(QUESTION).then(
      async (response) =>
        response.text().then(
          () => response.status,
          () => 'reset',
        ),
      () => 'reset',
    );
    expect(outcome).not.toBe(200);
    const { voided, ending } = await settled;
    expect(voided).toBe(true);
    expect(ending).not.toBe('timeout');
    await gateway.close();
  });
});

describe('output is never free', () => {
  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway();
  });

  afterEach(async () => {
    expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
    await gateway.close();
  });

  it('because the client asked for little of a provider that does not listen', async () => {
    const usage = { prompt_tokens: 9, completion_tokens: 900, total_tokens: 909 };
    gateway.provider.script = (response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(completionBody({ usage }));
    };
    const settled = gateway.nextSettled();
    await gateway.post({ ...QUESTION, max_completion_tokens: 1 });
    expect(await settled).toMatchObject({ charged: '0.002709', usageSource: 'upstream' });
  });

  it('because an error follows it', async () => {
    gateway.provider.script = answerStream([text('x'.repeat(400)), 'data: {"error":{"message":"oops"}}\n\n']);
    const settled = gateway.nextSettled();
    await (await gateway.post({ ...QUESTION, stream: true })).text();
    expect(await settled).toMatchObject({
      voided: false,
      usageSource: 'estimated',
      usage: { completionTokens: 100 },
    });
  });

  it('because the client hangs up between the last word and the usage', async () => {
    const { promise: left, resolve: tell } = Promise.withResolvers<void>();
    gateway.provider.script = async (response) => {
      beginStream(response);
      response.write(text('Hello', 'stop'));
      await left;
      response.end(
        event({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 800, total_tokens: 809 } }) + DONE,
      );
    };
    const settled = gateway.nextSettled();
    for await (const _ of await gateway.client.chat.completions.create({ ...QUESTION, stream: true })) break;
    tell();
    expect(await settled).toMatchObject({ charged: '0.002409', usageSource: 'upstream' });
  });

  it('because a limit that the balance asks for stands in a field the provider does not know', async () => {
    const poor = await startGateway({}, undefined, '0.0002');
    const response = await poor.post({ ...QUESTION, max_completion_tokens: 900 });
    const limit = Number(response.headers.get('x-ccr-max-tokens'));
    expect(JSON.parse(String(poor.provider.received[0]?.body))).toEqual({
      ...QUESTION,
      model: 'upstream-model',
      max_tokens: limit,
    });
    await poor.close();
  });
});

describe('nothing runs on without a client', () => {
  it('when the host answered in our place', async () => {
    const asking = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<void>();
    const gateway = await startGateway({}, (router) => {
      const app = express();
      app.use((_request, response, next) => {
        void asking.promise.then(() => {
          response.writeHead(503).flushHeaders();
          answered.resolve();
        });
        next();
      });
      app.use('/v1', router);
      return listen(http.createServer(app), '/v1');
    });
    gateway.provider.script = async (response) => {
      asking.resolve();
      await answered.promise;
      beginStream(response);
      response.write(text('Hello'));
    };
    const arrived = gateway.provider.next();
    const asked = gateway.post({ ...QUESTION, stream: true }).then(
      (response) => response.text().catch(() => 'reset'),
      () => 'reset',
    );
    expect(await (await arrived).aborted).toBeGreaterThan(0);
    await asked;
    expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
    await gateway.close();
  });

  it('when the function that gives the key never does', async () => {
    const gateway = await startGateway({
      provider: { apiKey: () => new Promise(() => {}) },
      timeouts: { connectMs: 100 },
    });
    const response = await gateway.post(QUESTION);
    expect(await response.json()).toMatchObject({ error: { code: 'upstream_refused_credentials' } });
    expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
    await gateway.close();
  });

  it('when its body arrives after close() was called', async () => {
    const gateway = await startGateway({ closeTimeoutMs: 1000 });
    const body = JSON.stringify(QUESTION);
    const socket = net.connect(Number(new URL(gateway.baseURL).port), '127.0.0.1');
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nauthorization: Bearer ${gateway.key}\r\ncontent-length: ${body.length}\r\n\r\n${body.slice(0, 9)}`,
    );
    // Node asks for the rest when it has called the router.
    await once(socket, 'data');
    const closed = gateway.router.close();
    socket.write(body.slice(9));
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString()).toContain('router_closing');
    await closed;
    expect(gateway.provider.received).toHaveLength(0);
    socket.destroy();
    await gateway.close();
  });

  it('when a provider worked on a request before its kept connection died: it is not asked twice', async () => {
    const gateway = await startGateway();
    await (await gateway.post(QUESTION)).text();
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    gateway.provider.script = (response) => {
      vi.advanceTimersByTime(1200);
      response.destroy();
    };
    expect((await gateway.post(QUESTION)).status).toBe(502);
    expect(gateway.provider.received).toHaveLength(2);
    await gateway.close();
  });
});

describe('what a provider or a host does oddly', () => {
  it('is reported to the client of a stream that ends before its first byte', async () => {
    const gateway = await startGateway({ timeouts: { idleMs: 100 } });
    gateway.provider.script = beginStream;
    const response = await gateway.post({ ...QUESTION, stream: true });
    expect(await response.text()).toContain('upstream_idle_timeout');
    await gateway.close();
  });

  it('is unpacked from zstd, and refused in an unknown encoding', async () => {
    const gateway = await startGateway();
    gateway.provider.script = (response) => {
      response.writeHead(200, { 'content-encoding': 'zstd' }).end(zstdCompressSync(completionBody()));
    };
    expect(await (await gateway.post(QUESTION)).text()).toBe(completionBody());
    gateway.provider.script = (response) => {
      response.writeHead(200, { 'content-encoding': 'compress' }).end('??');
    };
    const refused = await gateway.post(QUESTION);
    expect(await refused.json()).toMatchObject({ error: { code: 'upstream_invalid_response' } });
    await gateway.close();
  });

  it('is an error, and not a crash, where a parser left what JSON can not say', async () => {
    const gateway = await startGateway({}, (router) => {
      const app = express();
      app.use(express.json(), (request, _response, next) => {
        request.body = { seed: 1n };
        next();
      });
      app.use('/v1', router);
      return listen(http.createServer(app), '/v1');
    });
    expect(await (await gateway.post(QUESTION)).json()).toMatchObject({ error: { code: 'truncated_body' } });
    await gateway.close();
  });

  it('is reported to the host without the bytes of an answer', async () => {
    const gateway = await startGateway();
    gateway.provider.script = (response) => void response.socket?.end('SECRET ANSWER\r\n\r\n');
    await gateway.post(QUESTION);
    const [error] = gateway.errors;
    expect(Object.keys(error?.cause ?? {})).toEqual(['code']);
    await gateway.close();
  });
});
