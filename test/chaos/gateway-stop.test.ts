import { once } from 'node:events';
import { connect } from 'node:net';

import { expect, it } from 'vitest';

import { QUESTION } from '../helpers/gateway.ts';
import { answerJson, completionBody, startProvider } from '../helpers/provider.ts';
import { startRedis } from '../helpers/redis-server.ts';
import { ask } from './client.ts';
import { startGatewayProcess } from './gateway-process.ts';

const CLIENTS = 20;

it('a gateway that stood still charges none of the clients that left meanwhile for a request that was not sent', async () => {
  const redis = await startRedis();
  const provider = await startProvider(answerJson(completionBody()));
  const gateway = await startGatewayProcess({
    store: redis.url,
    provider: provider.baseURL,
    credits: '100',
  });
  // Its connections to Redis stand.
  expect((await ask(gateway)).status).toBe(200);
  await expect.poll(() => gateway.settled.size).toBe(1);
  const charged = (): number => [...gateway.settled.values()].filter((charge) => charge !== '0.00').length;

  const { port } = new URL(gateway.baseURL);
  const body = JSON.stringify(QUESTION);
  const request = [
    'POST /v1/chat/completions HTTP/1.1',
    'host: gateway',
    `authorization: Bearer ${gateway.key}`,
    'content-type: application/json',
    `content-length: ${body.length}`,
    '',
    body,
  ].join('\r\n');
  let asked = 1;
  // Some of those who left must have been admitted before that was known: there is nothing to judge by else.
  for (let rounds = 0; rounds < 10 && gateway.settled.size === asked; rounds++) {
    process.kill(gateway.pid, 'SIGSTOP');
    for (let n = 0; n < CLIENTS; n++) {
      const socket = connect(Number(port), '127.0.0.1');
      await once(socket, 'connect');
      await new Promise<void>((resolve) => socket.write(request, () => resolve()));
      socket.destroy();
      await once(socket, 'close');
    }
    process.kill(gateway.pid, 'SIGCONT');
    // Connections are taken in the order in which they came.
    expect((await ask(gateway)).status).toBe(200);
    asked += 1;
    await expect.poll(() => gateway.settled.size).toBeGreaterThanOrEqual(asked);
  }
  await gateway.terminate();
  expect(gateway.settled.size).toBeGreaterThan(asked);
  expect(charged()).toBeLessThanOrEqual(provider.received.length);
  await provider.close();
  await redis.stop();
}, 30_000);
