import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';

import { startProvider } from '../helpers/provider.ts';
import { startRedis } from '../helpers/redis-server.ts';
import { closeBooks, COST, expectChargedOnce, openBooks } from './books.ts';
import { type GatewayProcess, startGatewayProcess } from './gateway-process.ts';
import { ask, type Reply, statusesOf } from './client.ts';
import { startLoad } from './load.ts';

describe('a Redis that pauses', { timeout: 30_000 }, () => {
  it.each([200, 1000])('for %i ms is waited for, and no client hears of it', async (ms) => {
    const { url, admin, gateway } = await open();
    expect((await ask(gateway)).status).toBe(200);
    await admin.call('CLIENT', 'PAUSE', ms, 'ALL');
    const replies = await Promise.all(Array.from({ length: 4 }, () => ask(gateway)));
    expect(statusesOf(replies)).toEqual({ 200: 4 });
    await gateway.terminate();
    expectChargedOnce(await closeBooks(openBooks(url)), replies);
    expect(gateway.events).toEqual([]);
  });

  it.each(['ALL', 'WRITE'])(
    'for longer than a command waits (%s) has requests refused in time, and holds nothing of them afterwards',
    async (what) => {
      const { url, admin, gateway } = await open();
      expect((await ask(gateway)).status).toBe(200);
      await admin.call('CLIENT', 'PAUSE', 5000, what);
      // As many at a time as don't wait for each other.
      const replies = await Promise.all(Array.from({ length: 4 }, () => ask(gateway)));
      expect(statusesOf(replies)).toEqual({ 503: 4 });
      await expect.poll(async () => (await ask(gateway)).status).toBe(200);
      await gateway.terminate();
      const books = await closeBooks(openBooks(url));
      expectChargedOnce(books, replies);
      expect(books.state.requests.filter(({ state }) => state === 'expired')).toEqual([]);
    },
  );
});

describe('scripts and functions that are flushed every 50 ms', { timeout: 30_000 }, () => {
  it('are sent again, and no client hears of it', async () => {
    const { url, admin, gateway } = await open();
    const flushing = setInterval(
      () => void Promise.all([admin.script('FLUSH'), admin.function('FLUSH')]),
      50,
    );
    onTestFinished(() => clearInterval(flushing));
    const load = startLoad([gateway], 8);
    await load.succeeded(1000);
    const replies = await load.stop();
    await gateway.terminate();
    clearInterval(flushing);
    expect(statusesOf(replies)).toEqual({ 200: replies.length });
    expectChargedOnce(await closeBooks(openBooks(url)), replies);
  });
});

describe('a Redis that refuses to write under load', { timeout: 30_000 }, () => {
  it.each<[string, (admin: Redis) => Promise<unknown>, (admin: Redis) => Promise<unknown>]>([
    [
      'for want of memory (OOM)',
      (admin) => admin.config('SET', 'maxmemory', '1'),
      (admin) => admin.config('SET', 'maxmemory', '0'),
    ],
    [
      'for want of replicas (NOREPLICAS)',
      (admin) => admin.config('SET', 'min-replicas-to-write', '1'),
      (admin) => admin.config('SET', 'min-replicas-to-write', '0'),
    ],
    [
      'as a replica (READONLY)',
      (admin) => admin.replicaof('127.0.0.1', 1),
      (admin) => admin.replicaof('NO', 'ONE'),
    ],
  ])('%s has requests refused, three times over, and loses no charge', async (_why, begin, end) => {
    const { url, admin, gateway } = await open();
    const load = startLoad([gateway], 8);
    for (let times = 0; times < 3; times++) {
      await load.succeeded(50);
      await begin(admin);
      const { length } = load.replies;
      await load.answered(50);
      // Each client had one request on its way, at most.
      expect(statusesOf(load.replies.slice(length))[200] ?? 0).toBeLessThanOrEqual(8);
      await end(admin);
    }
    await load.succeeded(50);
    await close(url, gateway, await load.stop());
  });

  it('while it loads a big file (LOADING) is back by itself, and has lost nothing', async () => {
    const slowly = ['--key-load-delay', '200', '--loading-process-events-interval-bytes', '1024'];
    const { url, admin, server, gateway } = await open(['--appendonly', 'yes', ...slowly]);
    await admin.eval("for i = 1, 5000 do redis.call('SET', 'other' .. i, 'x') end", 0);
    const load = startLoad([gateway], 8);
    await load.succeeded(50);
    const running = ask(gateway, { stream: true });
    await server.restart();
    await load.succeeded(100);
    const replies = [...(await load.stop()), await running];
    expect(statusesOf(replies)[503]).toBeGreaterThan(0);
    await close(url, gateway, replies);
  });
});

async function close(url: string, gateway: GatewayProcess, replies: readonly Reply[]): Promise<void> {
  await gateway.terminate();
  const books = await closeBooks(openBooks(url));
  expect(Object.keys(statusesOf(replies))).toEqual(['200', '503']);
  expectChargedOnce(books, replies);
  expect(books.state.spent).toBe(COST * BigInt(books.charges.size));
  expect(gateway.events.map(({ type }) => type)).not.toContain('rollback');
}

async function open(args: readonly string[] = []) {
  const server = await startRedis(args);
  onTestFinished(() => server.kill());
  const admin = new Redis(server.port);
  admin.on('error', () => {});
  onTestFinished(() => admin.disconnect());
  const provider = await startProvider();
  onTestFinished(() => provider.close());
  const gateway = await startGatewayProcess({
    store: server.url,
    provider: provider.baseURL,
    credits: '100',
  });
  return { server, url: server.url, admin, gateway };
}
