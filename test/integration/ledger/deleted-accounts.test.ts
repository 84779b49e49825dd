import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';

import { type LedgerEvent, RedisStore } from '../../../src/index.ts';
import { OutboxFolder } from '../../../src/ledger/reliability/outbox-files.ts';
import { ReliableStore } from '../../../src/ledger/reliability/reliable-store.ts';
import { requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import {
  type Gateway,
  type GatewayOptions,
  clientsOf,
  QUESTION,
  startGateway,
} from '../../helpers/gateway.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

/** What an account that one gateway deleted comes to in another one, which has known it and has its key cached. */

describe('an account in Redis that another gateway has deleted', { timeout: 30_000 }, () => {
  it('is refused as an account that there is not, and not as one that was lost', async () => {
    const { own, other, key, events, redis } = await open();
    const cached = clientsOf(other.baseURL, key);
    const settled = other.nextSettled();
    expect((await cached.post(QUESTION)).status).toBe(200);
    await settled;
    expect((await own.fetch('/credits')).status).toBe(200);
    expect(await own.router.accounts.delete('acct')).toMatchObject({ spent: '0.000045' });

    expect((await own.fetch('/credits')).status).toBe(401);

    expect(await other.router.accounts.get('acct')).toBeUndefined();
    expect(await other.router.credits.balance('acct')).toMatchObject({ balance: '0.00' });
    expect((await cached.post(QUESTION)).status).toBe(401);
    expect((await cached.fetch('/credits')).status).toBe(401);
    const adjusted = other.router.credits.adjust('acct', '1.00', { id: 'a1', reason: 'late' });
    await expect(adjusted).rejects.toMatchObject({ code: 'no_account' });
    expect(await other.router.accounts.freeze('acct')).toBe(false);
    expect(events).toEqual([]);
    expect(other.provider.received).toHaveLength(1);
    expect((await redis.keys('*')).filter((name) => /acct\}/.test(name))).toEqual(['ccr:{acct}:a']);
    expect(await redis.hkeys('ccr:{acct}:a')).toEqual(['gone']);
    // For a day it is known that it was deleted.
    expect(Math.ceil((await redis.ttl('ccr:{acct}:a')) / 3600)).toBe(24);
  });

  it('is refused with its cached key for a model that costs nothing, too', async () => {
    const free = {
      models: {
        'acme/fast': {
          targets: ['loopback/upstream-model'],
          pricing: { input: '0', output: '0' },
          contextWindow: 8192,
          maxOutputTokens: 1000,
        },
      },
    };
    const { own, other, key } = await open(free);
    const cached = clientsOf(other.baseURL, key);
    expect((await cached.post(QUESTION)).status).toBe(200);
    await own.router.accounts.delete('acct');
    const refused = await cached.post(QUESTION);
    expect([refused.status, await refused.json()]).toMatchObject([
      401,
      { error: { code: 'invalid_api_key' } },
    ]);
  });

  it('can be made again under its ID, and is served there by every gateway', async () => {
    const { own, other, key, events } = await open();
    expect((await clientsOf(other.baseURL, key).post(QUESTION)).status).toBe(200);
    await expect
      .poll(async () => (await own.router.accounts.delete('acct').catch(() => {}))?.spent)
      .toBe('0.000045');
    await other.router.credits.grant('acct', '3.00', { id: 'welcome' });
    const made = await other.router.keys.create({ account: 'acct' });
    for (const gateway of [own, other]) {
      const settled = gateway.nextSettled();
      expect((await clientsOf(gateway.baseURL, made.key).post(QUESTION)).status).toBe(200);
      await settled;
      expect((await clientsOf(gateway.baseURL, key).post(QUESTION)).status).toBe(401);
    }
    expect(await own.router.credits.balance('acct')).toMatchObject({ balance: '2.99991' });
    expect(events).toEqual([]);
  });
});

describe('a charge that an earlier process left of an account that was deleted', { timeout: 30_000 }, () => {
  it('becomes a dead letter, and the account is not reported as lost', async () => {
    const { own, server } = await open();
    const folder = mkdtempSync(join(tmpdir(), 'ccr-deleted-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const away = new RedisStore('redis://127.0.0.1:1');
    const left = new ReliableStore({ store: away, tell: () => {}, outbox: new OutboxFolder(folder) });
    const charge = {
      account: 'acct',
      requestId: requestId(1, Date.now()),
      key: 'k1',
      model: 'm',
      amount: 5n,
    };
    Promise.resolve(left.settle({ ...charge, usage: USAGE, force: true })).catch(() => {});
    await left.close();

    await own.router.accounts.delete('acct');
    const events: LedgerEvent[] = [];
    const { promise: told, resolve } = Promise.withResolvers<void>();
    const next = new ReliableStore({
      store: new RedisStore(server.url),
      tell: (event) => {
        events.push(event);
        if (event.type === 'dead_letter' || event.type === 'account_lost') resolve();
      },
      outbox: new OutboxFolder(folder),
    });
    onTestFinished(() => next.close());
    await next.ready();
    await told;
    expect(events).toEqual([
      { type: 'dead_letter', account: 'acct', requestId: charge.requestId, file: expect.any(String) },
    ]);
  });
});

/** Two gateways on one Redis, and the key of their account, which has 10.00; the events are those of the other one. */
async function open(options: GatewayOptions = {}): Promise<{
  server: RedisServer;
  redis: Redis;
  own: Gateway;
  other: Gateway;
  key: string;
  events: LedgerEvent[];
}> {
  const server = await startRedis();
  onTestFinished(() => server.kill());
  const redis = new Redis(server.port);
  onTestFinished(() => redis.disconnect());
  const events: LedgerEvent[] = [];
  const start = async (credits: string, heard: LedgerEvent[]): Promise<Gateway> => {
    const hooks = [{ onLedgerEvent: (event: LedgerEvent) => heard.push(event) }];
    const gateway = await startGateway(
      { store: new RedisStore(server.url), hooks, ...options },
      undefined,
      credits,
    );
    onTestFinished(() => gateway.close());
    return gateway;
  };
  const own = await start('10.00', []);
  const other = await start('0.00', events);
  return { server, redis, own, other, key: own.key, events };
}
