import { afterEach, beforeEach, expect, it } from 'vitest';

import { type ProviderLimitStatus, RedisStore } from '../../../src/index.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody, type Provider, startProvider } from '../../helpers/provider.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

let server: RedisServer;
let provider: Provider;
let gateways: Gateway[];

beforeEach(async () => {
  gateways = [];
  [server, provider] = await Promise.all([startRedis(), startProvider(answerJson(completionBody()))]);
});
afterEach(async () => {
  for (const gateway of gateways) await gateway.close();
  await Promise.all([server.stop(), provider.close()]);
});

/** A process of the fleet. */
async function start(): Promise<Gateway> {
  const gateway = await startGateway({
    store: new RedisStore({ client: server.url, timeoutMs: 500 }),
    providers: {
      main: { baseURL: provider.baseURL, apiKeys: ['sk-a', 'sk-b'], limits: { requestsPerMinute: 10 } },
    },
    models: { 'acme/fast': { targets: ['main/a'], pricing: 'free', maxOutputTokens: 1000 } },
  });
  gateways.push(gateway);
  return gateway;
}

function limitsSeenBy(gateway: Gateway): readonly ProviderLimitStatus[] {
  return gateway.router.providers.list()[0]?.limits ?? [];
}

it('a process shows what all processes used of a limit, also one that sent nothing, and its own while Redis is away', async () => {
  const [one, other, idle] = [await start(), await start(), await start()];
  for (const gateway of [one, one, one, one, other, other]) {
    const response = await gateway.post({ ...QUESTION });
    expect(response.status).toBe(200);
    await response.text();
  }
  const used = (gateway: Gateway) => (): unknown =>
    limitsSeenBy(gateway).map(({ key, processes, requestsPerMinute }) => [
      key,
      processes,
      requestsPerMinute?.used,
    ]);
  const all = [
    ['key 1 of 2', 3, 3],
    ['key 2 of 2', 3, 3],
  ];
  for (const gateway of [idle, one, other]) await expect.poll(used(gateway), { timeout: 5000 }).toEqual(all);
  for (const { requestsPerMinute: use } of limitsSeenBy(one)) {
    expect(use?.left).toBeLessThanOrEqual(7);
    expect(use?.limit).toBe(10);
  }
  await server.stop();
  await expect.poll(used(one), { timeout: 10_000 }).toEqual([
    ['key 1 of 2', undefined, 2],
    ['key 2 of 2', undefined, 2],
  ]);
});
