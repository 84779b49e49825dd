import { once } from 'node:events';
import * as http from 'node:http';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { describe, expect, it } from 'vitest';

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
  it('keeps nothing of its prompt', async () => {
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
    const messages = [{ role: 'user', content: 'x'.repeat(1_000_000) }];
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
    await expect.poll(kept, { timeout: 5000 }).toBeLessThan(100_000);
    for (const stream of streams) stream.destroy();
    agent.destroy();
    provider.closeAllConnections();
    provider.close();
    await gateway.close();
  });
});

describe('a store that takes its time', () => {
  class SlowStore extends MemoryStore {
    override async admit(command: Admit): Promise<AdmitResult> {
      await sleep(15);
      const result = await super.admit(command);
      await sleep(15);
      return result;
    }
    override async settle(command: Settle): Promise<SettleResult> {
      await sleep(15);
      return await super.settle(command);
    }
  }

  it('leaves nothing held, and nothing running, by clients that leave at any moment', async () => {
    const store = new SlowStore();
    const settled: Settled[] = [];
    const gateway = await startGateway({ store, hooks: { onSettled: (event) => settled.push(event) } });
    gateway.provider.script = answerStream(STREAM, 10);
    for (let i = 0; i < 50; i++) {
      const controller = new AbortController();
      const asked = gateway
        .post({ ...QUESTION, stream: true }, { signal: controller.signal })
        .then((response) => response.text())
        .catch(() => 'left');
      await sleep(i * 2);
      controller.abort();
      await asked;
    }
    await expect.poll(async () => (await store.balance('acct'))?.held, { timeout: 3000 }).toBe(0n);
    await expect.poll(() => gateway.provider.openSockets(), { timeout: 3000 }).toBeLessThanOrEqual(1);
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
    await gateway.provider.close();
    gateway.provider.close = async () => {};
    const response = await gateway.post(QUESTION);
    await gateway.close();
    console.error = log;
    expect(logged).toHaveLength(1);
    expect(logged[0]).toContain(response.headers.get('x-request-id'));
    expect(logged[0]).toContain('upstream_unreachable');
    expect(logged[0]).not.toContain('sk-');
  });
});
