import { once } from 'node:events';

import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';

import { StoreUnavailableError } from '../../src/ledger/contract/ledger-store.ts';
import { RedisStore } from '../../src/ledger/stores/redis/redis-store.ts';
import { RequestIds } from '../../src/ledger/contract/request-ids.ts';
import { USAGE } from '../contracts/ledger-fixture.ts';
import { startProvider } from '../helpers/provider.ts';
import { startRedis } from '../helpers/redis-server.ts';
import { closeBooks, expectChargedOnce, openBooks } from './books.ts';
import { startGatewayProcess } from './gateway-process.ts';
import { statusesOf } from './client.ts';
import { startLoad } from './load.ts';
import { startUnreliableLink, type UnreliableLink } from './unreliable-link.ts';

describe('a connection that is cut, stalls and loses answers', { timeout: 60_000 }, () => {
  it.each([
    ['that resends what had no answer', true],
    ['that does not resend', false],
  ])(
    'under 4,000 requests by a client %s applies each once (LiteLLM #30460, ioredis #2193)',
    async (_which, autoResendUnfulfilledCommands) => {
      const { url, link } = await open();
      const books = openBooks(url);
      await books.grant({ account: 'acct', id: 'opening', amount: 1_000_000_000n });
      const clients = Array.from({ length: 4 }, () => {
        const client = new Redis(link.port, { autoResendUnfulfilledCommands, retryStrategy: () => 5 });
        client.on('error', () => {});
        onTestFinished(() => client.disconnect());
        return client;
      });
      const stores = clients.map((client) => new RedisStore({ client, timeoutMs: 60, keyPrefix: '' }));
      for (const client of clients) if (client.status !== 'ready') await once(client, 'ready');
      link.fail(25);
      const ids = new RequestIds();
      let left = 4000;
      let repeated = 0;
      let duplicates = 0;
      const untilAnswered = async <T>(index: number, call: (store: RedisStore) => Promise<T>): Promise<T> => {
        for (;;) {
          try {
            return await call(stores[index]!);
          } catch (error) {
            if (!(error instanceof StoreUnavailableError)) throw error;
            repeated += 1;
            await new Promise((resolve) => setTimeout(resolve, 5));
          }
        }
      };
      const worker = async (index: number): Promise<void> => {
        while (left > 0) {
          left -= 1;
          const requestId = ids.next();
          const common = { account: 'acct', key: 'k1', requestId };
          const admitted = await untilAnswered(index, (store) =>
            store.admit({
              ...common,
              externalKey: true,
              want: 1000n,
              min: 1000n,
              leaseMs: 120_000,
              tokens: 0,
              notAfter: Infinity,
            }),
          );
          expect(['ok', 'exists']).toContain(admitted.code);
          const settled = await untilAnswered(index, (store) =>
            store.settle({ ...common, amount: 500n, model: 'some/model', usage: USAGE, force: true }),
          );
          expect(['ok', 'duplicate']).toContain(settled.code);
          if (settled.code === 'duplicate') duplicates += 1;
        }
      };
      await Promise.all(Array.from({ length: 32 }, (_, n) => worker(n % 4)));
      link.heal();

      const { state, lines } = await closeBooks(books);
      expect(state).toMatchObject({ spent: 2_000_000n, held: 0n });
      expect(lines).toHaveLength(4001);
      // Every fault has struck, and some settlements were applied though nobody heard: else this shows nothing.
      expect(Math.min(...Object.values(link.struck))).toBeGreaterThan(0);
      expect(repeated).toBeGreaterThan(50);
      expect(duplicates).toBeGreaterThan(0);
    },
  );

  it('under a gateway has requests refused or answered, and each whole answer is charged once', async () => {
    const { url, link } = await open();
    const provider = await startProvider();
    onTestFinished(() => provider.close());
    const gateway = await startGatewayProcess({
      store: `redis://127.0.0.1:${link.port}`,
      redisTimeouts: { timeoutMs: 100 },
      provider: provider.baseURL,
      credits: '100',
    });
    link.fail(20);
    const load = startLoad([gateway], 16);
    const struck = (): number => Math.min(...Object.values(link.struck));
    await expect.poll(struck, { timeout: 30_000 }).toBeGreaterThan(1);
    link.heal();
    await load.succeeded(50);
    const replies = await load.stop();
    await gateway.terminate();
    const books = await closeBooks(openBooks(url), 15_000);
    expect(Object.keys(statusesOf(replies))).toEqual(['200', '503']);
    expectChargedOnce(books, replies);
  });
});

async function open(): Promise<{ url: string; link: UnreliableLink }> {
  const server = await startRedis();
  onTestFinished(() => server.kill());
  const link = await startUnreliableLink(server.port);
  onTestFinished(() => link.close());
  return { url: server.url, link };
}
