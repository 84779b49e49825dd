import { once } from 'node:events';
import * as http from 'node:http';

import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { MeteredHandler } from '../../../src/index.ts';
import { type Gateway, listen, startGateway } from '../../helpers/gateway.ts';

describe('a client of a metered route that leaves', () => {
  let gateway: Gateway;
  let server: { close(): Promise<void> };

  beforeEach(async () => {
    gateway = await startGateway();
  });

  afterEach(async () => {
    await server.close();
    expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
    await gateway.close();
  });

  /** Serves a handler on Node, and returns its URL. */
  async function serve(handler: MeteredHandler): Promise<string> {
    const metered = gateway.router.meter(handler, { model: 'embed/small', price: '0.02' });
    const mounted = await listen(http.createServer(metered), '/v1/embeddings');
    server = mounted;
    return mounted.baseURL;
  }

  const post = (url: string, signal: AbortSignal) =>
    fetch(url, { method: 'POST', signal, headers: { authorization: `Bearer ${gateway.key}` } });

  /** Sends a request, and leaves once this has resolved. */
  async function leaveOnce(called: Promise<void>, url: string): Promise<void> {
    const leaving = new AbortController();
    const answer = post(url, leaving.signal);
    await called;
    expect(gateway.router.requests()).toHaveLength(1);
    leaving.abort();
    await expect(answer).rejects.toThrow('This operation was aborted');
  }

  it.each([true, false])('ends the wait for its price, which looks at the signal: %s', async (looks) => {
    const asked = Promise.withResolvers<void>();
    const metered = gateway.router.meter(() => new Response('ok'), {
      model: 'embed/small',
      price: async ({ signal }) => {
        asked.resolve();
        await (looks ? once(signal, 'abort') : new Promise(() => {}));
        return '0.02';
      },
    });
    const mounted = await listen(http.createServer(metered), '/v1/embeddings');
    server = mounted;
    await leaveOnce(asked.promise, mounted.baseURL);
    await expect.poll(() => gateway.router.requests()).toEqual([]);
    expect(gateway.errors).toEqual([]);
  });

  it('in the middle of the answer is charged its price', async () => {
    let cancelled: () => void;
    const wasCancelled = new Promise<void>((resolve) => {
      cancelled = resolve;
    });
    const url = await serve(
      () =>
        new Response(
          new ReadableStream({
            start: (controller) => controller.enqueue(Buffer.from('first')),
            cancel: () => cancelled(),
          }),
        ),
    );
    const leaving = new AbortController();
    const settled = gateway.nextSettled();
    const response = await post(url, leaving.signal);
    await response.body?.getReader().read();
    leaving.abort();
    await wasCancelled;
    expect(await settled).toMatchObject({ charged: '0.02', ending: 'client_gone' });
  });

  it.each(['a stream', 'a short text'])(
    'is charged its price if the handler returns %s afterwards, which is cancelled',
    async (what) => {
      const cancelled = Promise.withResolvers<void>();
      const called = Promise.withResolvers<void>();
      const stream = new ReadableStream({ cancel: () => cancelled.resolve() });
      const url = await serve(async (_request, { clientLeft }) => {
        called.resolve();
        await once(clientLeft, 'abort');
        return new Response(what === 'a stream' ? stream : 'short');
      });
      const settled = gateway.nextSettled();
      await leaveOnce(called.promise, url);
      if (what === 'a stream') await cancelled.promise;
      expect(await settled).toMatchObject({ charged: '0.02', ending: 'client_gone' });
    },
  );

  it.each([
    ['with the reason of the signal', (signal: AbortSignal) => Promise.reject(signal.reason as Error)],
    [
      'as fetch does',
      (signal: AbortSignal) => fetch('http://127.0.0.1:1/', { signal: AbortSignal.any([signal]) }),
    ],
    [
      'as the official client does',
      async (signal: AbortSignal) => {
        const client = new OpenAI({ baseURL: 'http://127.0.0.1:1/', apiKey: 'sk' });
        await client.models.list({ signal });
      },
    ],
  ])('is no error for a handler that stops %s', async (_how, stop) => {
    const called = Promise.withResolvers<void>();
    const url = await serve(async (_request, { clientLeft, charge }) => {
      charge('0.01');
      called.resolve();
      await once(clientLeft, 'abort');
      await stop(clientLeft);
      throw new Error('It was not stopped');
    });
    const settled = gateway.nextSettled();
    await leaveOnce(called.promise, url);
    expect(await settled).toMatchObject({ charged: '0.01', ending: 'client_gone' });
    expect(gateway.errors).toEqual([]);
  });

  it('does not hide that its handler failed for another reason', async () => {
    const called = Promise.withResolvers<void>();
    const url = await serve(async (_request, { clientLeft }) => {
      called.resolve();
      await once(clientLeft, 'abort');
      throw new Error('out of paper');
    });
    const settled = gateway.nextSettled();
    await leaveOnce(called.promise, url);
    expect(await settled).toMatchObject({ voided: true, ending: 'client_gone' });
    const causes = (): string[] => gateway.errors.map(({ cause }) => String(cause));
    await expect.poll(causes).toEqual(['Error: out of paper']);
  });
});
