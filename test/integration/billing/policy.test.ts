import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';

import { type ChatCompletionsRouterOptions, type LedgerEvent, RedisStore } from '../../../src/index.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { beginStream, DONE, type Script, text, USAGE_EVENT } from '../../helpers/provider.ts';
import { startRelay } from '../../helpers/redis-relay.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';
import { startReplicatedRedis } from '../../helpers/replicated-redis.ts';

/**
 * What happens to requests and to their money when the store fails: LEDGER.md 4.2, a test a row.
 *
 * Every request costs 0.000045 USD where nothing else is said.
 */
const COST = '0.000045';

describe('while the store is unavailable', { timeout: 30_000 }, () => {
  it('requests are refused with 503, and nothing is sent', async () => {
    const { server, gateway } = await open();
    await server.kill();
    await refuses(gateway);
    expect(gateway.provider.received).toEqual([]);
  });

  it('a thousand refusals are a few lines and one event', async () => {
    const { server, gateway, events } = await open();
    await server.kill();
    for (let n = 0; n < 20; n++) await Promise.all(Array.from({ length: 50 }, () => refuses(gateway)));
    expect(events.map(({ type }) => type)).toEqual(['store_unavailable']);
    // One a second, of a test that takes 30 at most.
    expect(gateway.errors.length).toBeLessThanOrEqual(31);
  });

  it('running requests are finished, and charged once it is back', async () => {
    const { server, gateway, events } = await open({}, ['--appendonly', 'yes', '--appendfsync', 'always']);
    const running = await startStream(gateway);
    const settled = gateway.nextSettled();
    await server.restart();
    expect(await running.finish()).toContain('[DONE]');
    expect(await settled).toMatchObject({ charged: COST });
    await holds(gateway, { held: '0.00', totalUsed: COST });
    expect(events.filter(({ type }) => type === 'rollback' || type === 'account_lost')).toEqual([]);
  });
});

describe('when the outcome is unknown', { timeout: 30_000 }, () => {
  it('of an admit, the client gets 503, and nothing is held when it arrives after all', async () => {
    const { server, gateway } = await open();
    await gateway.fetch('/models');
    server.freeze();
    const refused = await gateway.post(QUESTION);
    expect(refused.status).toBe(503);
    expect(refused.headers.get('retry-after')).toBe('1');
    server.thaw();
    await holds(gateway, { held: '0.00', totalUsed: '0.00' });
    const settled = gateway.nextSettled();
    expect((await gateway.post(QUESTION)).status).toBe(200);
    await settled;
    await holds(gateway, { held: '0.00', totalUsed: COST });
  });

  it('of a settlement, it is posted once', async () => {
    const server = await startRedis();
    onTestFinished(() => server.kill());
    const relay = await startRelay(server.port);
    onTestFinished(() => relay.close());
    const { gateway } = await openOn(`redis://127.0.0.1:${relay.port}`);
    const running = await startStream(gateway);
    const settled = gateway.nextSettled();
    const swallowed = relay.swallow();
    await running.finish();
    await swallowed;
    relay.cut();
    expect(await settled).toMatchObject({ charged: COST });
    await holds(gateway, { held: '0.00', totalUsed: COST });
    expect(await gateway.router.credits.journal('acct')).toHaveLength(2);
  });
});

describe('when the store has lost writes', { timeout: 30_000 }, () => {
  it('to a failover, what was charged is charged, and what runs is held', async () => {
    const redis = await startReplicatedRedis();
    onTestFinished(() => redis.close());
    const { gateway, events } = await openOn(redis.url);
    const first = gateway.nextSettled();
    redis.stopReplicating();
    expect((await gateway.post(QUESTION)).status).toBe(200);
    await first;
    const running = await startStream(gateway);
    const { held } = await gateway.router.credits.balance('acct');
    await redis.promote();
    redis.redirect();
    await expect.poll(() => events.map(({ type }) => type)).toContain('rollback_repaired');
    await holds(gateway, { held, totalUsed: COST });
    const second = gateway.nextSettled();
    await running.finish();
    expect(await second).toMatchObject({ charged: COST });
    await holds(gateway, { held: '0.00', totalUsed: '0.00009', balance: '4.99991' });
  });

  it('to a restart without persistence, its accounts are refused, and none is made again', async () => {
    const { server, gateway, events } = await open();
    const settled = gateway.nextSettled();
    expect((await gateway.post(QUESTION)).status).toBe(200);
    await settled;
    await server.restart();
    await expect.poll(async () => (await gateway.post(QUESTION)).status).toBe(503);
    await expect.poll(() => events.map(({ type }) => type)).toContain('account_lost');
    await refuses(gateway);
    const admin = new Redis(server.port);
    onTestFinished(() => admin.disconnect());
    // The log of requests, which is not the books, goes on.
    expect((await admin.keys('*')).filter((name) => !name.endsWith(':log'))).toEqual([]);
  });
});

describe('when the store takes no writes', { timeout: 30_000 }, () => {
  it.each<[string, (admin: Redis) => Promise<unknown>, (admin: Redis) => Promise<unknown>]>([
    [
      'it became a replica',
      (admin) => admin.replicaof('127.0.0.1', 1),
      (admin) => admin.replicaof('NO', 'ONE'),
    ],
    [
      'it has too few replicas',
      (admin) => admin.config('SET', 'min-replicas-to-write', '1'),
      (admin) => admin.config('SET', 'min-replicas-to-write', '0'),
    ],
  ])('because %s, requests are refused and settlements wait', async (_, begin, end) => {
    const { server, gateway } = await open();
    const admin = new Redis(server.port);
    onTestFinished(() => admin.disconnect());
    const running = await startStream(gateway);
    await begin(admin);
    await refuses(gateway);
    const settled = gateway.nextSettled();
    await running.finish();
    await refuses(gateway);
    expect(gateway.settled).toEqual([]);
    await end(admin);
    expect(await settled).toMatchObject({ charged: COST });
    await holds(gateway, { held: '0.00', totalUsed: COST });
  });

  it('because its memory is full, requests are refused, and what runs is settled', async () => {
    const { server, gateway } = await open();
    const admin = new Redis(server.port);
    onTestFinished(() => admin.disconnect());
    const running = await startStream(gateway);
    await admin.config('SET', 'maxmemory', '1');
    await refuses(gateway);
    const settled = gateway.nextSettled();
    await running.finish();
    expect(await settled).toMatchObject({ charged: COST });
    await holds(gateway, { held: '0.00', totalUsed: COST });
  });
});

describe('a router that is closed', { timeout: 30_000 }, () => {
  it('while the store is unavailable leaves its charges in the outbox, and the next one posts them', async () => {
    const outboxDir = newFolder();
    const { server, gateway } = await open({ outboxDir, closeTimeoutMs: 200 });
    const running = await startStream(gateway);
    server.freeze();
    await running.finish();
    await gateway.close();
    expect(gateway.errors.at(-1)?.message).toBe(
      `Charges not posted when the router was closed: 1 (kept in ${outboxDir} for the next start)`,
    );
    expect(readdirSync(outboxDir)).toHaveLength(1);
    server.thaw();
    const next = await openOn(server.url, { outboxDir });
    await holds(next.gateway, { held: '0.00', totalUsed: COST });
    // Redis may have posted it itself when it thawed: what the next one has sent is answered before what it sends now.
    const settled = next.gateway.nextSettled();
    expect((await next.gateway.post(QUESTION)).status).toBe(200);
    await settled;
    await holds(next.gateway, { held: '0.00', totalUsed: '0.00009' });
    await next.gateway.close();
    expect(readdirSync(outboxDir)).toEqual([]);
  });

  it('without an outbox says what is lost', async () => {
    const { server, gateway } = await open({ closeTimeoutMs: 200 });
    const running = await startStream(gateway);
    server.freeze();
    await running.finish();
    await gateway.close();
    expect(gateway.errors.at(-1)?.message).toBe('Charges not posted when the router was closed: 1');
  });

  it('leaves nothing in the outbox when all was posted', async () => {
    const outboxDir = newFolder();
    const { gateway } = await open({ outboxDir });
    const settled = gateway.nextSettled();
    expect((await gateway.post(QUESTION)).status).toBe(200);
    await settled;
    await gateway.close();
    expect(readdirSync(outboxDir)).toEqual([]);
    expect(gateway.errors).toEqual([]);
  });
});

describe('when the outbox can not be written', { timeout: 30_000 }, () => {
  it('requests are refused, until it can', async () => {
    const outboxDir = join(newFolder(), 'outbox');
    writeFileSync(outboxDir, 'a file in the place of the folder');
    const { gateway, events } = await open({ outboxDir });
    await refuses(gateway);
    expect(events).toMatchObject([{ type: 'outbox_failed' }]);
    rmSync(outboxDir);
    const settled = gateway.nextSettled();
    await expect.poll(async () => (await gateway.post(QUESTION)).status).toBe(200);
    expect(await settled).toMatchObject({ charged: COST });
    expect(events.map(({ type }) => type)).toEqual(['outbox_failed', 'outbox_recovered']);
  });
});

async function open(
  options: Partial<ChatCompletionsRouterOptions> = {},
  args: readonly string[] = [],
): Promise<{ server: RedisServer; gateway: Gateway; events: LedgerEvent[] }> {
  const server = await startRedis(args);
  onTestFinished(() => server.kill());
  return { server, ...(await openOn(server.url, options)) };
}

async function openOn(
  url: string,
  options: Partial<ChatCompletionsRouterOptions> = {},
): Promise<{ gateway: Gateway; events: LedgerEvent[] }> {
  const events: LedgerEvent[] = [];
  const client = new Redis(url, { retryStrategy: () => 20, lazyConnect: true });
  client.on('error', () => {});
  onTestFinished(() => client.disconnect());
  const gateway: Gateway = await startGateway({
    store: new RedisStore(client),
    ...options,
    hooks: {
      onSettled: (settled) => {
        gateway.settled.push(settled);
        for (const resolve of waiting.splice(0, 1)) resolve(settled);
      },
      onError: (error) => gateway.errors.push(error),
      onLedgerEvent: (event) => events.push(event),
    },
    closeTimeoutMs: 500,
    ...options,
  });
  const waiting: ((settled: Gateway['settled'][number]) => void)[] = [];
  gateway.nextSettled = () => new Promise((resolve) => waiting.push(resolve));
  onTestFinished(() => gateway.close().catch(() => {}));
  return { gateway, events };
}

/** A stream that has begun, and goes on when it is told to. */
async function startStream(gateway: Gateway): Promise<{ finish: () => Promise<string> }> {
  let finish = (): void => {};
  const script: Script = async (response) => {
    beginStream(response);
    response.write(text('Hello'));
    await new Promise<void>((resolve) => {
      finish = resolve;
    });
    response.end(text(' there.', 'stop') + USAGE_EVENT + DONE);
  };
  gateway.provider.script = script;
  const response = await gateway.post({ ...QUESTION, stream: true });
  expect(response.status).toBe(200);
  return {
    finish: () => {
      finish();
      return response.text();
    },
  };
}

async function refuses(gateway: Gateway): Promise<void> {
  const refused = await gateway.post(QUESTION);
  expect(refused.status).toBe(503);
  expect(refused.headers.get('retry-after')).toBe('1');
  expect(await refused.json()).toMatchObject({ error: { code: 'credit_store_unavailable' } });
}

/** What the account comes to. */
async function holds(gateway: Gateway, balance: object): Promise<void> {
  await expect
    .poll(() => gateway.router.credits.balance('acct').catch(() => undefined))
    .toMatchObject(balance);
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'ccr-policy-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
