import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';

import type { LedgerEvent } from '../../src/ledger/contract/events.ts';
import { StoreUnavailableError } from '../../src/ledger/contract/ledger-store.ts';
import { RedisStore } from '../../src/ledger/stores/redis/redis-store.ts';
import { ReliableStore } from '../../src/ledger/reliability/reliable-store.ts';
import { RequestIds } from '../../src/ledger/contract/request-ids.ts';
import { hashOf, USAGE } from '../contracts/ledger-fixture.ts';
import { startReplicatedRedis } from '../helpers/replicated-redis.ts';
import { startRedis } from '../helpers/redis-server.ts';

const ACCOUNTS = ['a', 'b', 'c', 'd'];
const CREDITS = 1_000_000_000n;

describe('a replica that is promoted before it has everything', { timeout: 60_000 }, () => {
  it.each([1, 2, 3, 4, 5])(
    'has, once two gateways have repaired it, all they acknowledged, and once: round %i',
    async () => {
      const redis = await startReplicatedRedis();
      onTestFinished(() => redis.close());
      const gateways = [openGateway(redis.url), openGateway(redis.url)];
      for (const account of ACCOUNTS) {
        await gateways[0]!.store.grant({ account, id: 'opening', amount: CREDITS });
      }
      const stop = new AbortController();
      const workers = gateways.flatMap((gateway) =>
        Array.from({ length: 8 }, () => work(gateway, stop.signal)),
      );
      await settledBy(gateways, 300);
      redis.stopReplicating();
      await settledBy(gateways, 200);
      await gateways[0]!.store.grant({ account: 'a', id: 'late', amount: 5n });
      await redis.promote();

      // Of what was acknowledged the replica lacks something, or this would show nothing.
      const bare = new RedisStore(redis.replicaUrl);
      onTestFinished(() => bare.close());
      const acknowledged = gateways.flatMap(({ settled }) => settled);
      let lost = 0;
      for (const { account, requestId } of acknowledged) {
        if ((await bare.request(account, requestId))?.state !== 'settled') lost += 1;
      }
      expect(lost).toBeGreaterThan(100);

      redis.redirect();
      await settledBy(gateways, 200);
      stop.abort();
      await Promise.all(workers);
      const live = gateways.flatMap(({ held }) => [...held]);
      const all = gateways.flatMap(({ settled }) => settled);
      const idsOf = (account: string): Set<string> =>
        new Set(all.filter((each) => each.account === account).map(({ requestId }) => requestId));
      const chargedIn = async (account: string): Promise<Set<string>> => {
        const lines = await bare.journal(account, 0n, 100_000);
        return new Set(lines.filter(({ type }) => type !== 'g').map(({ id }) => id));
      };
      for (const account of ACCOUNTS) {
        await expect.poll(() => chargedIn(account)).toEqual(idsOf(account));
      }
      await expect.poll(() => repairsOf(gateways)).toBe('all');
      await expect
        .poll(async () =>
          (await Promise.all(ACCOUNTS.map((account) => bare.balance(account)))).map((each) => each?.held),
        )
        .toEqual(
          ACCOUNTS.map((account) => 100n * BigInt(live.filter((each) => each.account === account).length)),
        );

      for (const account of ACCOUNTS) {
        const own = all.filter((each) => each.account === account);
        const spent = own.reduce((sum, { amount }) => sum + amount, 0n);
        expect(await bare.balance(account)).toMatchObject({
          granted: CREDITS + (account === 'a' ? 5n : 0n),
          spent,
        });
        expect(await bare.snapshot(account)).toMatchObject({ frozen: false, writtenOff: 0n });
      }
      for (const { events } of gateways) {
        expect(events.map(({ type }) => type)).toEqual(
          expect.arrayContaining(['rollback', 'rollback_repaired']),
        );
      }
    },
  );
});

describe('a Redis that comes back empty', { timeout: 30_000 }, () => {
  it('gets no account again: requests are refused, and the charges wait', async () => {
    const server = await startRedis();
    onTestFinished(() => server.kill());
    const gateway = openGateway(server.url);
    const { store, events, ids } = gateway;
    await store.grant({ account: 'a', id: 'opening', amount: CREDITS });
    await settleOne(gateway, 'a');
    const running = await admitOne(gateway, 'a');
    await server.restart();
    const settled = settle(gateway, 'a', running);
    await expect.poll(() => events.map(({ type }) => type)).toContain('account_lost');
    const refused = store.admit(admission('a', ids.next()));
    await expect(refused).rejects.toMatchObject({ name: 'StoreUnavailableError', applied: 'no' });
    const admin = new Redis(server.port);
    onTestFinished(() => admin.disconnect());
    expect(await admin.dbsize()).toBe(0);
    expect(events.filter(({ type }) => type === 'account_lost')).toHaveLength(1);

    const restored = new RedisStore(server.url);
    onTestFinished(() => restored.close());
    await restored.grant({ account: 'a', id: 'restored', amount: 500n });
    expect(await settled).toMatchObject({ code: 'ok', charged: 7n });
    expect(await store.balance('a')).toMatchObject({ granted: 500n, spent: 7n });
  });
});

interface Gateway {
  readonly store: ReliableStore;
  readonly events: LedgerEvent[];
  readonly ids: RequestIds;
  /** What was acknowledged. */
  readonly settled: { account: string; requestId: string; amount: bigint }[];
  readonly held: Set<{ account: string; requestId: string }>;
}

function openGateway(url: string): Gateway {
  const events: LedgerEvent[] = [];
  const client = new Redis(url, { retryStrategy: () => 20, lazyConnect: true });
  client.on('error', () => {});
  const store = new ReliableStore({ store: new RedisStore(client), tell: (event) => events.push(event) });
  onTestFinished(async () => {
    await store.close();
    client.disconnect();
  });
  return { store, events, ids: new RequestIds(), settled: [], held: new Set() };
}

/** Requests one after the other, until told to stop; every tenth is left running. */
async function work(gateway: Gateway, signal: AbortSignal): Promise<void> {
  for (let n = 0; !signal.aborted; n++) {
    const account = ACCOUNTS[n % ACCOUNTS.length]!;
    try {
      const requestId = await admitOne(gateway, account);
      if (n % 10 === 0) gateway.held.add({ account, requestId });
      else await settle(gateway, account, requestId);
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
}

async function settleOne(gateway: Gateway, account: string): Promise<void> {
  await settle(gateway, account, await admitOne(gateway, account));
}

async function admitOne({ store, ids }: Gateway, account: string): Promise<string> {
  const requestId = ids.next();
  try {
    const result = await store.admit(admission(account, requestId));
    if (result.code !== 'ok') throw new Error(`An admit was answered ${result.code}`);
    return requestId;
  } catch (error) {
    if (error instanceof StoreUnavailableError && error.applied === 'unknown')
      await store.void({ account, requestId });
    throw error;
  }
}

async function settle({ store, settled }: Gateway, account: string, requestId: string) {
  const amount = 7n;
  const result = await store.settle({
    account,
    requestId,
    amount,
    key: 'k1',
    model: 'some/model',
    usage: USAGE,
    force: true,
  });
  if (result.code !== 'ok' && result.code !== 'duplicate')
    throw new Error(`A settle was answered ${result.code}`);
  settled.push({ account, requestId, amount });
  return result;
}

function admission(account: string, requestId: string) {
  return {
    account,
    key: 'k1',
    externalKey: true,
    requestId,
    want: 100n,
    min: 100n,
    leaseMs: 120_000,
    tokens: 0,
    notAfter: Date.now() + 5000,
  };
}

/** Resolves when the gateways together have settled so many more requests. */
async function settledBy(gateways: readonly Gateway[], more: number): Promise<void> {
  const count = (): number => gateways.reduce((sum, { settled }) => sum + settled.length, 0);
  const goal = count() + more;
  await expect.poll(count, { interval: 5 }).toBeGreaterThanOrEqual(goal);
}

/** Whether every rollback that was seen has been repaired. */
function repairsOf(gateways: readonly Gateway[]): string {
  const types = gateways.flatMap(({ events }) => events.map(({ type }) => type));
  const seen = types.filter((type) => type === 'rollback').length;
  return seen > 0 && types.filter((type) => type === 'rollback_repaired').length === seen ? 'all' : 'some';
}

describe('a server that lost the way to a key, and not the key', () => {
  it('has it again', async () => {
    const server = await startRedis();
    onTestFinished(() => server.kill());
    const { store } = openGateway(server.url);
    const client = new Redis(server.url);
    onTestFinished(() => client.disconnect());
    const hash = hashOf('k1');
    await store.grant({ account: 'a', id: 'g1', amount: 1n });
    await store.createKey({ account: 'a', key: 'k1', hash, name: '' });
    expect(await client.del(`ccr:k:${hash}`)).toBe(1);
    await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await expect.poll(() => store.findKey(hash).catch(() => undefined)).toMatchObject({ key: 'k1' });
  }, 20_000);
});
