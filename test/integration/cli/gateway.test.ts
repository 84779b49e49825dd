import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect } from 'node:net';

import { expect, it } from 'vitest';

import { createGateway, listen, Readiness } from '../../../src/cli/serve/server.ts';
import { type ChatCompletionsRouter, createChatCompletionsRouter } from '../../../src/index.ts';
import { hang, startFakeProvider } from '../../../src/testing.ts';

const noLog = (): void => {};

it('a process is ready while a provider, or whoever has its key, hangs', async () => {
  await using provider = await startFakeProvider();
  provider.answer(hang);
  const asked = provider.nextRequest();
  const hooks = { onError: () => {} };
  const router = createChatCompletionsRouter({ store: 'memory:', providers: {}, models: {}, hooks });
  await router.ready();
  const { baseURL } = provider;
  const vault = { baseURL, apiKey: () => new Promise<string>(() => {}), timeouts: { connectMs: 6000 } };
  router.reload({ providers: { slow: { baseURL, models: 'discover' }, vault } });
  await asked;
  expect(await new Readiness(router, noLog).problem()).toBeUndefined();
  await router.close();
});

it('a server that closes lets a slow client read the rest of an answer that has ended', async () => {
  const length = 32 * 1024 * 1024;
  const { promise: answered, resolve } = Promise.withResolvers<void>();
  // It answers at once, and sends more than the buffers of the system hold.
  const router = ((_request: IncomingMessage, response: ServerResponse) => {
    response.writeHead(200, { 'content-length': length }).end(Buffer.alloc(length));
    resolve();
    return Promise.resolve();
  }) as ChatCompletionsRouter;
  const readiness = new Readiness(router, noLog);
  const gateway = createGateway({ router, readiness, adminApi: undefined, hostNames: undefined, log: noLog });
  const { port } = new URL(await listen(gateway.server, 0, '127.0.0.1'));
  const client = connect(Number(port), '127.0.0.1').pause();
  client.write('GET /v1/models HTTP/1.1\r\nhost: a\r\n\r\n');
  await answered;
  const closed = gateway.close();
  let received = 0;
  client.on('data', (bytes) => (received += bytes.length)).resume();
  await Promise.all([once(client, 'close'), closed]);
  expect(received).toBeGreaterThan(length);
});
