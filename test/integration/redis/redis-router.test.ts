import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { RedisStore } from '../../../src/index.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerStream, completionBody, STREAM } from '../../helpers/provider.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

describe('routers that share a Redis', () => {
  let server: RedisServer;
  const clients: Redis[] = [];

  beforeAll(async () => {
    server = await startRedis();
  });

  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await server.stop();
  });

  function openStore(keyPrefix = ''): RedisStore {
    const client = new Redis(server.url);
    clients.push(client);
    return new RedisStore({ client, keyPrefix });
  }

  it('serve what their accounts can pay together, and not a request more', async () => {
    const options = { holdMode: 'strict' as const, store: openStore() };
    const first = await startGateway(options, undefined, '0.0099');
    const second = await startGateway({ ...options, store: openStore() }, undefined, '0.0099');
    const gateways: readonly Gateway[] = [first, second];
    const { promise: allRefused, resolve: tell } = Promise.withResolvers<void>();
    for (const gateway of gateways) {
      gateway.provider.script = async (response) => {
        await allRefused;
        response.writeHead(200, { 'content-type': 'application/json' }).end(completionBody());
      };
    }
    // Each holds about 0.00306 USD: three fit. The second `welcome` granted nothing.
    let refused = 0;
    const statuses = await Promise.all(
      Array.from({ length: 60 }, async (_, i) => {
        const { status } = await gateways[i % 2]!.post(QUESTION);
        if (status === 402 && ++refused === 57) tell();
        return status;
      }),
    );
    expect(statuses.filter((status) => status === 200)).toHaveLength(3);
    expect(statuses.filter((status) => status === 402)).toHaveLength(57);
    expect(first.provider.received.length + second.provider.received.length).toBe(3);
    await expect
      .poll(() => first.router.credits.balance('acct'))
      .toMatchObject({ held: '0.00', totalUsed: '0.000135' });
    for (const gateway of gateways) await gateway.close();
  });

  it('charge a stream as it ends, and show it to the next request', async () => {
    const gateway = await startGateway({ store: openStore('other:') }, undefined, '1.00');
    const before = await gateway.router.credits.balance('acct');
    gateway.provider.script = answerStream(STREAM);
    const settled = gateway.nextSettled();
    await (await gateway.post({ ...QUESTION, stream: true })).text();
    expect(await settled).toMatchObject({ charged: '0.000045', usageSource: 'upstream' });
    const after = await gateway.router.credits.balance('acct');
    expect(Number(after.totalUsed) - Number(before.totalUsed)).toBeCloseTo(0.000045, 12);
    await gateway.close();
  });

  it('answer 503 while it is unavailable, and send nothing', async () => {
    const own = await startRedis();
    const client = new Redis(own.url, { lazyConnect: true, retryStrategy: () => 50 });
    client.on('error', () => {});
    const gateway = await startGateway({ store: new RedisStore(client) });
    const settled = gateway.nextSettled();
    expect((await gateway.post(QUESTION)).status).toBe(200);
    // Closing would wait for a charge that can't be posted.
    await settled;
    await own.stop();
    const away = await gateway.post(QUESTION);
    expect(away.status).toBe(503);
    expect(away.headers.get('retry-after')).toBe('1');
    expect(await away.json()).toMatchObject({ error: { code: 'credit_store_unavailable' } });
    expect(gateway.provider.received).toHaveLength(1);
    await gateway.close();
    client.disconnect();
  });
});
