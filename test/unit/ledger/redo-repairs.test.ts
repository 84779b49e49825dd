import { describe, expect, it } from 'vitest';

import {
  admission,
  clock,
  inFakeTime,
  openAccount,
  pass,
  reliable,
  settled,
  settlement,
} from '../../helpers/reliable-store.ts';
import { rollbackStore } from '../../helpers/rollback-store.ts';
import { StoreUnavailableError } from '../../../src/ledger/contract/ledger-store.ts';
import { OutboxFolder } from '../../../src/ledger/reliability/outbox-files.ts';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

describe('a store made reliable, that rolls back', () => {
  inFakeTime();

  it('has the whole of a charge that was posted in part by a command whose answer was lost', async () => {
    const primary = rollbackStore(clock);
    const [one, other] = [reliable(primary), reliable(primary)];
    await one.store.grant({ account: 'acme', id: 'opening', amount: 30n });
    const copied = primary.length;
    await other.store.grant({ account: 'acme', id: 'late', amount: 100n });
    await one.store.admit(admission(1, 80n));
    await primary.rollBackTo(copied);
    primary.fault = 'lose the answer';
    const charged = one.store.settle(settlement(1, 60n));
    await settled();
    primary.fault = undefined;
    await pass(1000);
    await charged;
    await pass(60_000);
    expect(await primary.balance('acme')).toMatchObject({ granted: 130n, spent: 60n, available: 70n });
  });

  it('tells of no rollback where a charge was left that the balance does not cover', async () => {
    const files = new OutboxFolder(mkdtempSync(join(tmpdir(), 'review-')));
    const { primary, store } = await openAccount(10n, { outbox: files });
    await store.admit(admission(1, 5n));
    primary.fault = 'refuse';
    void Promise.resolve(store.settle(settlement(1, 60n))).catch(() => {});
    await pass(100);
    await store.close();
    primary.fault = undefined;
    const next = reliable(primary, { outbox: files });
    await next.store.balance('acme');
    await pass(1000);
    primary.sent.length = 0;
    await Promise.resolve(next.store.admit(admission(2, 5n))).catch(() => {});
    await pass(60_000);
    expect(next.events.map(({ type }) => type)).toEqual(['write_off']);
  });

  it('has the whole of a charge of which a part waits when the gateway is closed', async () => {
    const primary = rollbackStore(clock);
    const files = new OutboxFolder(mkdtempSync(join(tmpdir(), 'review-')));
    const one = reliable(primary, { outbox: files });
    const other = reliable(primary);
    await one.store.grant({ account: 'acme', id: 'opening', amount: 30n });
    await other.store.grant({ account: 'zeta', id: 'opening', amount: 30n });
    const copied = primary.length;
    await other.store.grant({ account: 'acme', id: 'late', amount: 100n });
    await one.store.admit(admission(1, 80n));
    await primary.rollBackTo(copied);
    await one.store.settle(settlement(1, 60n));
    await settled();
    await one.store.close();
    const next = reliable(primary, { outbox: files });
    await next.store.balance('acme');
    await pass(60_000);
    expect(await primary.balance('acme')).toMatchObject({ granted: 130n, spent: 60n, available: 70n });
  });

  it('applies nothing again to an account that was made again meanwhile', async () => {
    const { primary, store } = await openAccount(100n);
    const copied = primary.length;
    await store.settle(settlement(1, 5n));
    await store.settle(settlement(2, 6n));
    await primary.rollBackTo(copied);
    const settle = primary.settle.bind(primary);
    primary.settle = () => Promise.reject(new StoreUnavailableError('no'));
    void Promise.resolve(store.admit(admission(3, 1n))).catch(() => {});
    await pass(1000);
    await primary.rollBackTo(0);
    await expect(store.balance('acme')).rejects.toMatchObject({ code: 'account_lost' });
    await store.grant({ account: 'acme', id: 'again', amount: 50n, recreate: true });
    primary.settle = settle;
    await pass(10_000);
    expect(await store.balance('acme')).toMatchObject({ granted: 50n, spent: 0n });
  });

  it('takes a hold again that was lost once more while it was taken again', async () => {
    const { primary, store } = await openAccount(100n);
    const copied = primary.length;
    await store.admit(admission(1, 5n));
    await primary.rollBackTo(copied);
    const extend = primary.extend.bind(primary);
    primary.extend = async (command) => {
      primary.extend = extend;
      await primary.rollBackTo(copied);
      return extend(command);
    };
    await store.admit(admission(2, 1n));
    await pass(1000);
    expect((await primary.snapshot('acme'))?.held).toBe(6n);
  });

  it('asks little for an admit, however many charges wait for credits', async () => {
    const { primary, store } = await openAccount(1000n);
    const copied = primary.length;
    for (let n = 1; n <= 200; n++) await store.settle(settlement(n, 5n));
    await primary.rollBackTo(copied);
    await primary.settle(settlement(900, 1000n));
    void Promise.resolve(store.admit(admission(901, 1n))).catch(() => {});
    await pass(1000);
    primary.sent.length = 0;
    expect(await store.admit(admission(902, 1n))).toMatchObject({ code: 'no_funds' });
    expect(primary.sent.filter((name) => name === 'settle').length).toBeLessThan(10);
  });
});
