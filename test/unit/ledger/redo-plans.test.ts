import { describe, expect, it } from 'vitest';

import type { Allow } from '../../../src/ledger/contract/allowances.ts';
import { requestId } from '../../contracts/ledger-fixture.ts';
import { failOver, inFakeTime, openAccount, pass, settlement } from '../../helpers/reliable-store.ts';

const ALLOW: Allow = {
  account: 'acme',
  id: 'pro',
  amount: 20n,
  per: 'month',
  anchor: 0,
  rollover: 'none',
  priority: 50,
  change: 'next_period',
};

describe('a store that rolls back', () => {
  inFakeTime();

  it('gets its allowances, credit line and refunds again', async () => {
    const { primary, store, events } = await openAccount(1000n);
    const copied = primary.length;
    await store.allow(ALLOW);
    await store.allow({ ...ALLOW, amount: 50n, change: 'prorate' });
    const before = await store.balance('acme');
    await store.setFloor({ account: 'acme', floor: -30n });
    await store.settle(settlement(1, 60n));
    const request = { account: 'acme', requestId: requestId(1), key: 'k1', model: 'some/model' };
    await store.refund({ ...request, amount: 60n, charged: 60n, reason: 'broken' });
    await failOver(primary, copied);
    await pass(5000);
    expect(await store.balance('acme')).toMatchObject({
      available: before?.available,
      spent: 0n,
      floor: -30n,
      allowances: [{ id: 'pro', amount: 50n, granted: 50n, version: 2 }],
    });
    expect(events.map(({ type }) => type)).toEqual(['rollback', 'rollback_repaired']);
  });

  it('keeps a floor that another gateway set since', async () => {
    const { primary, store } = await openAccount(1000n);
    await store.setFloor({ account: 'acme', floor: -30n });
    await primary.setFloor({ account: 'acme', floor: -10n });
    const copied = primary.length;
    await store.settle(settlement(1, 60n));
    await failOver(primary, copied);
    await pass(5000);
    expect(await store.balance('acme')).toMatchObject({ floor: -10n, spent: 60n });
  });

  it('has the sums of an account with what it had lost when it was deleted', async () => {
    const { primary, store } = await openAccount(1000n);
    const copied = primary.length;
    await store.settle(settlement(1, 60n));
    await failOver(primary, copied);
    expect(await store.deleteAccount('acme')).toMatchObject({
      code: 'ok',
      deleted: { granted: 1000n, available: 940n, spent: 60n },
    });
    expect(await store.deleteAccount('acme')).toEqual({ code: 'no_account' });
  });

  it('knows no account that it has deleted, and makes it anew', async () => {
    const { store, events } = await openAccount(1000n);
    expect(await store.deleteAccount('acme')).toMatchObject({ code: 'ok' });
    expect(await store.balance('acme')).toBeUndefined();
    expect(await store.grant({ account: 'acme', id: 'opening', amount: 5n })).toMatchObject({
      code: 'ok',
      available: 5n,
    });
    expect(events).toEqual([]);
  });

  it('has an allowance no more that was ended', async () => {
    const { primary, store } = await openAccount(1000n);
    await store.allow(ALLOW);
    const copied = primary.length;
    await store.endAllowance({ account: 'acme', id: 'pro', at: 'now' });
    await failOver(primary, copied);
    await pass(5000);
    expect(await store.balance('acme')).toMatchObject({
      available: 1000n,
      allowances: [{ id: 'pro', until: expect.any(Number), version: 2 }],
    });
  });
});
