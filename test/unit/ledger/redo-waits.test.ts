import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import type { LedgerEvent } from '../../../src/ledger/contract/events.ts';
import { StoreUnavailableError } from '../../../src/ledger/contract/ledger-store.ts';
import { OutboxFolder } from '../../../src/ledger/reliability/outbox-files.ts';
import type { ReliableStoreOptions } from '../../../src/ledger/reliability/reliable-store.ts';
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
import { hashOf, requestId } from '../../contracts/ledger-fixture.ts';
import { rollbackStore } from '../../helpers/rollback-store.ts';

/** What waits for a grant that another gateway has made, and makes again after a rollback. */
const LATE = { account: 'acme', id: 'late', amount: 100n };

describe('a charge that waits for a grant of another gateway', () => {
  inFakeTime();

  it('waits half a minute in which the store answers', async () => {
    const { primary, events } = await openUnpaid();
    primary.fault = 'refuse';
    await pass(60_000);
    primary.fault = undefined;
    await pass(10_000);
    await primary.grant(LATE);
    await pass(10_000);
    expect(await primary.balance('acme')).toMatchObject({ spent: 60n, available: 70n });
    expect(typesOf(events)).not.toContain('write_off');
  });

  it('waits half a minute after the last rollback', async () => {
    const { primary, store, events, copied } = await openUnpaid();
    await pass(24_000);
    await primary.rollBackTo(copied);
    await Promise.resolve(store.admit(admission(2, 1n))).catch(() => {});
    await pass(20_000);
    await primary.grant(LATE);
    await pass(10_000);
    expect(await primary.balance('acme')).toMatchObject({ spent: 60n });
    expect(typesOf(events)).not.toContain('write_off');
  });

  it('is posted by no answer that the account is not there', async () => {
    const files = new OutboxFolder(mkdtempSync(join(tmpdir(), 'waits-')));
    const outbox = { outbox: files };
    const { primary, store, events } = await openUnpaid(outbox);
    const { length } = primary;
    const settle = primary.settle.bind(primary);
    primary.settle = () => Promise.resolve({ code: 'no_account', now: clock.now, seq: 0n });
    await Promise.resolve(store.admit(admission(2, 1n))).catch(() => {});
    primary.settle = settle;
    expect(typesOf(events)).not.toContain('rollback_repaired');
    await store.close();
    await primary.rollBackTo(length);
    await primary.grant(LATE);
    await reliable(primary, outbox).store.balance('acme');
    await pass(10_000);
    expect(await primary.balance('acme')).toMatchObject({ spent: 60n });
  });
});

describe('what is unpaid when the gateway is closed', () => {
  inFakeTime();

  it('is written off where no outbox keeps it', async () => {
    const { store, events } = await openUnpaid();
    await store.close();
    expect(events.slice(1)).toEqual([
      { type: 'write_off', account: 'acme', requestId: requestId(1), amount: '0.00000003' },
      { type: 'repair_refused', account: 'acme', id: requestId(1), amount: '-0.00000003', code: 'no_funds' },
    ]);
  });

  it('is reported where it is an adjustment, which no outbox keeps', async () => {
    const outbox = new OutboxFolder(mkdtempSync(join(tmpdir(), 'waits-')));
    const { store, events } = await openUnpaidAdjustment({ outbox });
    await store.close();
    expect(events.slice(1)).toEqual([
      { type: 'repair_refused', account: 'acme', id: 'a1', amount: '-0.00000006', code: 'below_floor' },
    ]);
  });
});

describe('what was given up', () => {
  inFakeTime();

  it('is not charged after another rollback, though its grant is there', async () => {
    const { primary, store, events, copied } = await openUnpaid();
    await pass(35_000);
    expect(typesOf(events)).toContain('write_off');
    await primary.rollBackTo(copied);
    await primary.grant(LATE);
    await store.balance('acme');
    await pass(10_000);
    expect(await primary.balance('acme')).toMatchObject({ spent: 30n, available: 100n });
  });

  it('is not adjusted after another rollback, though its grant is there', async () => {
    const { primary, store, events, copied } = await openUnpaidAdjustment();
    await pass(35_000);
    expect(typesOf(events)).toContain('repair_refused');
    await primary.rollBackTo(copied);
    await primary.grant(LATE);
    await store.balance('acme');
    await pass(10_000);
    expect(await primary.balance('acme')).toMatchObject({ granted: 130n });
  });
});

describe('an adjustment that a rollback took', () => {
  inFakeTime();

  it('waits for a grant of another gateway that covers it', async () => {
    const { primary, events } = await openUnpaidAdjustment();
    await pass(10_000);
    await primary.grant(LATE);
    await pass(10_000);
    expect(await primary.balance('acme')).toMatchObject({ granted: 70n });
    expect(typesOf(events)).toEqual(['rollback', 'rollback_repaired']);
  });
});

describe('a key that a rollback took', () => {
  inFakeTime();

  it('is there again, though another gateway has taken a hold of it again before', async () => {
    const primary = rollbackStore(clock);
    const [one, other] = [reliable(primary), reliable(primary)];
    await one.store.grant({ account: 'acme', id: 'opening', amount: 100n });
    const copied = primary.length;
    await one.store.createKey({ account: 'acme', key: 'new', name: '', hash: hashOf('new') });
    await other.store.admit(admission(1, 5n, { key: 'new', externalKey: false }));
    await primary.rollBackTo(copied);
    await Promise.resolve(other.store.admit(admission(2, 5n))).catch(() => {});
    primary.loseConnection();
    await pass(10_000);
    expect(await primary.findKey(hashOf('new'))).toMatchObject({ key: 'new', state: 'active' });
    expect(typesOf(one.events)).toEqual(['rollback', 'rollback_repaired']);
  });
});

describe('an account that was made again', () => {
  inFakeTime();

  it('is not lost by a late answer to what was sent before', async () => {
    const { primary, store, events } = await openAccount(100n);
    const [admit, late] = [primary.admit.bind(primary), Promise.withResolvers<void>()];
    primary.admit = async (command) => {
      const reply = await admit(command);
      await late.promise;
      return reply;
    };
    await primary.rollBackTo(0);
    const overtaken = store.admit(admission(1, 5n));
    await settled();
    await store.grant({ account: 'acme', id: 'again', amount: 50n, recreate: true });
    const { length } = primary;
    late.resolve();
    await expect(overtaken).rejects.toThrow(StoreUnavailableError);
    expect(typesOf(events)).toEqual(['account_lost']);
    await store.adjust({ account: 'acme', id: 'a1', delta: 7n, reason: '' });
    await primary.rollBackTo(length);
    await pass(10_000);
    expect(await store.balance('acme')).toMatchObject({ granted: 57n });
  });

  it('is charged what an earlier process left, which this one has not known it by', async () => {
    const outbox = { outbox: new OutboxFolder(mkdtempSync(join(tmpdir(), 'waits-'))) };
    const { primary, store } = await openAccount(100n, outbox);
    primary.fault = 'refuse';
    void Promise.resolve(store.settle(settlement(1, 60n))).catch(() => {});
    await pass(100);
    await store.close();
    primary.fault = undefined;
    await primary.rollBackTo(0);
    const next = reliable(primary, outbox);
    await next.store.balance('another');
    await pass(1000);
    expect(typesOf(next.events)).toEqual(['account_lost']);
    await next.store.grant({ account: 'acme', id: 'again', amount: 100n, recreate: true });
    await pass(10_000);
    expect(await next.store.balance('acme')).toMatchObject({ spent: 60n, available: 40n });
  });
});

describe('a hold that was lost', () => {
  inFakeTime();

  it('is renewed in vain, and soon, while the repair can not be made', async () => {
    const { primary, store } = await openAccount(100n);
    const copied = primary.length;
    await store.admit(admission(1, 5n));
    await primary.rollBackTo(copied);
    const admit = primary.admit.bind(primary);
    primary.admit = () => Promise.reject(new StoreUnavailableError('no'));
    const renewal = { account: 'acme', requestId: requestId(1), hold: 5n, leaseMs: 60_000, checkpoint: 0n };
    const renewed = Promise.resolve(store.extend(renewal)).catch((error: unknown) => error);
    await pass(10_000);
    primary.admit = admit;
    await pass(10_000);
    expect(await renewed).toMatchObject({ name: 'StoreUnavailableError', applied: 'no' });
    expect(await store.extend(renewal)).toMatchObject({ code: 'ok', hold: 5n });
  });
});

/** A charge of 60 that was posted as far as the 30 that are left, because a rollback took the 100 that covered it. */
async function openUnpaid(options: Partial<ReliableStoreOptions> = {}) {
  const primary = rollbackStore(clock);
  const { store, events } = reliable(primary, options);
  await store.grant({ account: 'acme', id: 'opening', amount: 30n });
  const copied = primary.length;
  await primary.grant(LATE);
  await store.admit(admission(1, 80n));
  await primary.rollBackTo(copied);
  await store.settle(settlement(1, 60n));
  await pass(1000);
  expect(await primary.balance('acme')).toMatchObject({ spent: 30n });
  return { primary, store, events, copied };
}

/** An adjustment of 60 that the 30 that are left don't cover, because a rollback took the 100 that did. */
async function openUnpaidAdjustment(options: Partial<ReliableStoreOptions> = {}) {
  const primary = rollbackStore(clock);
  const { store, events } = reliable(primary, options);
  await store.grant({ account: 'acme', id: 'opening', amount: 30n });
  const copied = primary.length;
  await primary.grant(LATE);
  await store.adjust({ account: 'acme', id: 'a1', delta: -60n, reason: '' });
  await primary.rollBackTo(copied);
  await Promise.resolve(store.admit(admission(1, 1n))).catch(() => {});
  return { primary, store, events, copied };
}

function typesOf(events: readonly LedgerEvent[]): string[] {
  return events.map(({ type }) => type);
}
