import { once } from 'node:events';
import * as http from 'node:http';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { describe, expect, it, vi } from 'vitest';

import { ReadRequest } from '../../../src/http/read-body.ts';
import {
  type Admit,
  type AdmitResult,
  MemoryStore,
  type Settle,
  type Settled,
  type SettleResult,
} from '../../../src/index.ts';
import { QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerStream, sleep, STREAM } from '../../helpers/provider.ts';

describe('many requests on one connection', () => {
  it('leave no listeners, no holds and no requests behind', async () => {
    const gateway = await startGateway();
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on('warning', onWarning);
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const { port } = new URL(gateway.baseURL);
    const headers = { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' };
    gateway.provider.script = answerStream(STREAM);
    for (let i = 0; i < 200; i++) {
      await new Promise<void>((resolve, reject) => {
        const request = http.request({ port, agent, headers, method: 'POST', path: '/v1/chat/completions' });
        request.on('error', reject).on('response', (response) => response.resume().on('end', resolve));
        request.end(JSON.stringify({ ...QUESTION, stream: true }));
      });
    }
    expect(warnings).toEqual([]);
    expect(gateway.settled).toHaveLength(200);
    expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
    expect(gateway.provider.connections()).toBe(1);
    process.off('warning', onWarning);
    agent.destroy();
    await gateway.close();
  });
});

describe('a stream that runs', () => {
  it.each([
    ['a long', 1_000_000, 100_000],
    ['a short', 14_000, 7000],
  ])('keeps nothing of %s prompt', async (_name, characters, mostBytes) => {
    setFlagsFromString('--expose-gc');
    const collect: () => void = runInNewContext('gc');
    // Unlike the provider of other tests, this one keeps no prompt either.
    const provider = http.createServer((request, response) => {
      request.resume().on('end', () => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(STREAM[0]);
      });
    });
    await once(provider.listen(0, '127.0.0.1'), 'listening');
    const address = provider.address();
    if (typeof address !== 'object' || !address) throw new Error('The provider listens on no port');
    const gateway = await startGateway({ provider: { baseURL: `http://127.0.0.1:${address.port}/v1` } });
    const agent = new http.Agent();
    const { port } = new URL(gateway.baseURL);
    const headers = { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' };
    const messages = [{ role: 'user', content: 'x'.repeat(characters) }];
    const body = Buffer.from(JSON.stringify({ ...QUESTION, messages, stream: true }));
    const open = (): Promise<http.IncomingMessage> =>
      new Promise((resolve, reject) => {
        const request = http.request({ port, agent, headers, method: 'POST', path: '/v1/chat/completions' });
        request.on('error', reject).on('response', (response) => {
          response.once('data', () => {
            resolve(response);
          });
        });
        request.end(body);
      });
    const streams = [await open()];
    collect();
    const before = process.memoryUsage().arrayBuffers;
    for (let i = 0; i < 20; i++) streams.push(await open());
    // Buffers that one collection finds are freed by the next.
    const kept = (): number => {
      collect();
      return (process.memoryUsage().arrayBuffers - before) / 20;
    };
    await expect.poll(kept).toBeLessThan(mostBytes);
    for (const stream of streams) stream.destroy();
    agent.destroy();
    provider.closeAllConnections();
    provider.close();
    await gateway.close();
  });
});

it('releases what was read of a request once its stream has begun', async () => {
  const gateway = await startGateway();
  gateway.provider.script = (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(STREAM[0]);
  };
  const release = vi.spyOn(ReadRequest.prototype, 'release');
  const controller = new AbortController();
  try {
    const response = await gateway.post({ ...QUESTION, stream: true }, { signal: controller.signal });
    expect((await response.body?.getReader().read())?.done).toBe(false);
    expect(release).toHaveBeenCalledOnce();
  } finally {
    release.mockRestore();
    controller.abort();
    await gateway.close();
  }
});

describe('clients that leave at any moment', () => {
  const MOMENTS = ['sent', 'admitting', 'admitted', 'received', 'head', 'word', 'settling'] as const;
  type Moment = (typeof MOMENTS)[number];

  /** Says when a request has come so far, and goes on once the news of it can have arrived. */
  class SteppedStore extends MemoryStore {
    reached: (moment: Moment) => void = () => {};
    override async admit(command: Admit): Promise<AdmitResult> {
      await this.#pass('admitting');
      const result = await super.admit(command);
      await this.#pass('admitted');
      return result;
    }
    override async settle(command: Settle): Promise<SettleResult> {
      await this.#pass('settling');
      return await super.settle(command);
    }
    async #pass(moment: Moment): Promise<void> {
      this.reached(moment);
      await sleep(15);
    }
  }

  it('leave nothing held, and nothing running', async () => {
    const store = new SteppedStore();
    const settled: Settled[] = [];
    const gateway = await startGateway({ store, hooks: { onSettled: (event) => settled.push(event) } });
    gateway.provider.script = (response, request) => {
      store.reached('received');
      return answerStream(STREAM, 10)(response, request);
    };
    for (let i = 0; i < 49; i++) {
      const controller = new AbortController();
      const asked = gateway
        .post({ ...QUESTION, stream: true }, { signal: controller.signal })
        .then(async (response) => {
          store.reached('head');
          for await (const _ of response.body!) store.reached('word');
        })
        .catch(() => 'left');
      const moment = MOMENTS[i % MOMENTS.length]!;
      if (moment !== 'sent')
        await new Promise<void>((resolve) => (store.reached = (at) => at === moment && resolve()));
      controller.abort();
      await asked;
    }
    await expect.poll(async () => (await store.balance('acct'))?.held).toBe(0n);
    await expect.poll(() => gateway.provider.openSockets()).toBeLessThanOrEqual(1);
    const { requests = [] } = (await store.snapshot('acct')) ?? {};
    expect(requests.filter(({ state }) => state === 'held')).toEqual([]);
    expect(settled).toHaveLength(requests.length);
    // Whoever left before the request went out pays nothing, and no provider was asked.
    expect(gateway.provider.received.length).toBeLessThan(requests.length);
    expect(settled.filter(({ voided }) => !voided).length).toBeLessThanOrEqual(
      gateway.provider.received.length,
    );
    await gateway.close();
  });
});

describe('hooks', () => {
  it.each([
    [
      'throws',
      (): never => {
        throw new Error('boom');
      },
    ],
    [
      'rejects',
      async (): Promise<never> => {
        throw new Error('boom');
      },
    ],
  ])('that %s can not break a request', async (_name, onSettled) => {
    const log = console.error;
    const logged: unknown[] = [];
    console.error = (...line: unknown[]): void => void logged.push(line);
    const gateway = await startGateway({ hooks: { onSettled } });
    expect((await gateway.post(QUESTION)).status).toBe(200);
    await expect.poll(() => logged).toHaveLength(1);
    await gateway.close();
    console.error = log;
  });
});

describe('what is logged where the host has no onError', () => {
  it('is a line that names the request and holds no key', async () => {
    const log = console.error;
    const logged: string[] = [];
    console.error = (...line: unknown[]): void => void logged.push(line.join(' '));
    const gateway = await startGateway({ hooks: { onError: undefined as never } });
    gateway.provider.script = (response) => void response.destroy();
    const response = await gateway.post(QUESTION);
    await gateway.close();
    console.error = log;
    expect(logged).toHaveLength(1);
    expect(logged[0]).toContain(response.headers.get('x-request-id'));
    expect(logged[0]).toContain('upstream_unreachable');
    expect(logged[0]).not.toContain('sk-');
  });
});
