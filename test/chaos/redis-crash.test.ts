import { existsSync } from 'node:fs';

import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';

import { StoreUnavailableError } from '../../src/ledger/contract/ledger-store.ts';
import { RedisKeys } from '../../src/ledger/stores/redis/redis-keys.ts';
import type { RedisStore } from '../../src/ledger/stores/redis/redis-store.ts';
import { RequestIds } from '../../src/ledger/contract/request-ids.ts';
import { USAGE } from '../contracts/ledger-fixture.ts';
import { startProvider } from '../helpers/provider.ts';
import { type RedisServer, startRedis } from '../helpers/redis-server.ts';
import { closeBooks, COST, expectChargedOnce, openBooks } from './books.ts';
import { startGatewayProcess } from './gateway-process.ts';
import { statusesOf } from './client.ts';
import { startLoad } from './load.ts';

describe('a Redis that is killed', { timeout: 60_000 }, () => {
  it.each(['everysec', 'always'])(
    'five times under 16 writers, with fsync %s, loses nothing that it acknowledged',
    async (fsync) => {
      const server = await startServer(['--appendonly', 'yes', '--appendfsync', fsync]);
      const store = openBooks(server.url) as RedisStore;
      await store.grant({ account: 'acct', id: 'opening', amount: 1_000_000_000n });
      const acknowledged = new Set<string>();
      const stop = new AbortController();
      const writers = Array.from({ length: 16 }, () => write(store, acknowledged, stop.signal));
      for (let kills = 0; kills < 5; kills++) {
        const goal = acknowledged.size + 100;
        await expect.poll(() => acknowledged.size, { interval: 5 }).toBeGreaterThanOrEqual(goal);
        await server.restart();
      }
      stop.abort();
      await Promise.all(writers);
      const { charges } = await closeBooks(store);
      expect([...acknowledged].filter((id) => charges.get(id) !== 7n)).toEqual([]);
      expect(charges.size).toBe(acknowledged.size);
    },
  );

  it('three times under a gateway with 16 clients costs each whole answer once', async () => {
    const server = await startServer(['--appendonly', 'yes', '--appendfsync', 'everysec']);
    const provider = await startTestProvider();
    const gateway = await startGatewayProcess({ store: server.url, provider, credits: '100' });
    const load = startLoad([gateway], 16);
    for (let kills = 0; kills < 3; kills++) {
      await load.succeeded(100);
      await server.restart();
    }
    await load.succeeded(50);
    const replies = await load.stop();
    await gateway.terminate();
    const books = await closeBooks(openBooks(server.url));
    expect(Object.keys(statusesOf(replies))).toEqual(['200', '503']);
    expectChargedOnce(books, replies);
    expect(books.state.spent).toBe(COST * BigInt(books.charges.size));
    for (const [id] of gateway.settled) expect(books.charges.has(id)).toBe(true);
  });
});

describe('a Redis that comes back empty', { timeout: 30_000 }, () => {
  it('gets no books made again by its gateways: each refuses everything, and says so once', async () => {
    const server = await startServer();
    const provider = await startTestProvider();
    const options = { store: server.url, provider, credits: '100' };
    const gateways = [await startGatewayProcess(options), await startGatewayProcess(options)];
    const load = startLoad(gateways, 8);
    await load.succeeded(50);
    await server.restart();
    await expect
      .poll(() => gateways.map(({ events }) => events.filter(({ type }) => type === 'account_lost').length))
      .toEqual([1, 1]);
    const before = load.replies.length;
    await load.answered(100);
    const refused = (await load.stop()).slice(before + 16);
    expect(statusesOf(refused)).toEqual({ 503: refused.length });
    const admin = new Redis(server.port);
    onTestFinished(() => admin.disconnect());
    // Neither is of the books: the log of requests has the refusals too, and gateways announce themselves now and then.
    const names = new RedisKeys('');
    const besideTheBooks = new Set([names.log(), names.logOf('acct'), names.gateways()]);
    expect((await admin.keys('*')).filter((key) => !besideTheBooks.has(key))).toEqual([]);
    for (const { events } of gateways) {
      expect(events.filter(({ type }) => type === 'account_lost')).toHaveLength(1);
    }
  });
});

async function startServer(args: readonly string[] = []): Promise<RedisServer> {
  // In memory, where there is such a place: with everysec, Redis keeps a write back for up to 2 s while a disk syncs slowly.
  const server = await startRedis(args, existsSync('/dev/shm') ? '/dev/shm' : undefined);
  onTestFinished(() => server.kill());
  return server;
}

async function startTestProvider(): Promise<string> {
  const provider = await startProvider();
  onTestFinished(() => provider.close());
  return provider.baseURL;
}

/** Admits 10 and settles 7, one request after the other, until it is stopped; what fails is repeated. */
async function write(store: RedisStore, acknowledged: Set<string>, signal: AbortSignal): Promise<void> {
  const ids = new RequestIds();
  while (!signal.aborted) {
    const requestId = ids.next();
    const { code } = await untilAnswered(() =>
      store.admit({
        account: 'acct',
        key: 'k1',
        externalKey: true,
        requestId,
        want: 10n,
        min: 10n,
        leaseMs: 120_000,
        tokens: 0,
        notAfter: Infinity,
      }),
    );
    if (code !== 'ok' && code !== 'exists') throw new Error(`An admit was answered ${code}`);
    const settled = await untilAnswered(() =>
      store.settle({
        account: 'acct',
        key: 'k1',
        requestId,
        amount: 7n,
        model: 'some/model',
        usage: USAGE,
        // An admit that was acknowledged and lost would show as an unknown request.
        force: false,
      }),
    );
    if (settled.code !== 'ok' && settled.code !== 'duplicate') {
      throw new Error(`A settle was answered ${settled.code}`);
    }
    acknowledged.add(requestId);
  }
}

async function untilAnswered<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}
