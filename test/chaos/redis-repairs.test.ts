import { describe, expect, it, onTestFinished } from 'vitest';

import type { LedgerEvent } from '../../src/ledger/contract/events.ts';
import type { Admit, LedgerStore, Settle } from '../../src/ledger/contract/ledger-store.ts';
import { RedisStore } from '../../src/ledger/stores/redis/redis-store.ts';
import { ReliableStore } from '../../src/ledger/reliability/reliable-store.ts';
import { RequestIds } from '../../src/ledger/contract/request-ids.ts';
import { USAGE } from '../contracts/ledger-fixture.ts';
import { startRolledBackRedis } from '../helpers/rolled-back-redis.ts';

describe('a Redis that was rolled back', { timeout: 60_000 }, () => {
  it('is repaired though a hold can not be taken again in full', async () => {
    const redis = await startRolledBackRedis();
    onTestFinished(() => redis.close());
    const { store, ask } = openGateway(redis.server.url);
    const bare = new RedisStore(redis.server.url);
    onTestFinished(() => bare.close());
    await store.grant({ account: 'a', id: 'opening', amount: 100n });
    await redis.mark();
    expect(await ask(60n)).toMatchObject({ code: 'ok' });
    await redis.rollBack();
    await bare.settle(settlement(new RequestIds().next(), 70n));
    await ask(1n).catch(() => {});
    await expect.poll(() => ask(1n).catch((error: unknown) => error)).toMatchObject({ code: 'no_funds' });
  });

  it('is repaired in one account while another can not be', async () => {
    const redis = await startRolledBackRedis();
    onTestFinished(() => redis.close());
    const { store, ask } = openGateway(redis.server.url);
    const bare = new RedisStore(redis.server.url);
    onTestFinished(() => bare.close());
    for (const account of ['a', 'b']) await store.grant({ account, id: 'opening', amount: 100n });
    await redis.mark();
    expect(await ask(60n)).toMatchObject({ code: 'ok' });
    const ids = new RequestIds();
    await store.settle(settlement(ids.next(), 5n, { account: 'b' }));
    await redis.rollBack();
    await bare.settle(settlement(ids.next(), 70n));
    await expect
      .poll(() => bare.balance('b'), { timeout: 50_000, interval: 500 })
      .toMatchObject({ spent: 5n });
  });

  it('has the whole of a charge whose hold was taken again before the grant that covers it', async () => {
    const redis = await startRolledBackRedis();
    onTestFinished(() => redis.close());
    const [busy, idle] = [openGateway(redis.server.url), openGateway(redis.server.url)];
    const bare = new RedisStore(redis.server.url);
    onTestFinished(() => bare.close());
    await busy.store.grant({ account: 'a', id: 'opening', amount: 30n });
    await redis.mark();
    // The account that is looked at each second is another one.
    await idle.store.grant({ account: 'z', id: 'opening', amount: 1n });
    await redis.mark();
    await idle.store.grant({ account: 'a', id: 'late', amount: 100n });
    const requestId = new RequestIds().next();
    await busy.ask(60n, { requestId });
    await redis.rollBack();
    const renewal = { account: 'a', requestId, hold: 60n, leaseMs: 120_000, checkpoint: 0n };
    await busy.ask(1n).catch(() => {});
    expect(await busy.store.extend(renewal)).toMatchObject({ code: 'no_funds', hold: 30n });
    await expect.poll(() => busy.events.map(({ type }) => type)).toContain('rollback_repaired');
    await busy.store.settle(settlement(requestId, 50n));
    await expect
      .poll(() => bare.balance('a'), { timeout: 50_000, interval: 500 })
      .toMatchObject({ granted: 130n });
    await expect.poll(() => bare.balance('a')).toMatchObject({ spent: 50n, writtenOff: 0n });
  });
});

function openGateway(url: string) {
  const events: LedgerEvent[] = [];
  const ids = new RequestIds();
  const store: LedgerStore = new ReliableStore({
    store: new RedisStore(url),
    tell: (event) => events.push(event),
  });
  onTestFinished(() => store.close());
  const ask = async (want: bigint, more: Partial<Admit> = {}) =>
    store.admit({
      account: 'a',
      key: 'k1',
      externalKey: true,
      requestId: ids.next(),
      want,
      min: want,
      leaseMs: 120_000,
      tokens: 0,
      notAfter: Infinity,
      ...more,
    });
  return { store, events, ask };
}

function settlement(requestId: string, amount: bigint, more: Partial<Settle> = {}): Settle {
  return {
    account: 'a',
    requestId,
    amount,
    key: 'k1',
    model: 'some/model',
    usage: USAGE,
    force: true,
    ...more,
  };
}
