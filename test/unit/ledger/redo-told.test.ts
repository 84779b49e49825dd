import { describe, expect, it } from 'vitest';

import { requestId } from '../../contracts/ledger-fixture.ts';
import {
  admission,
  inFakeTime,
  openAccount,
  pass,
  settled,
  settlement,
} from '../../helpers/reliable-store.ts';

describe('a rollback', () => {
  inFakeTime();

  it('is reported once, though a look at the account that began before its repair is answered after it', async () => {
    const { primary, store, events } = await openAccount(100n);
    const copied = primary.length;
    await store.settle(settlement(1, 5n));
    await primary.rollBackTo(copied);
    const [verify, late] = [primary.verify.bind(primary), Promise.withResolvers<void>()];
    primary.verify = async (command) => {
      primary.verify = verify;
      const reply = await verify(command);
      await late.promise;
      return reply;
    };
    await pass(30_000);
    await store.admit(admission(2, 1n));
    await pass(1000);
    late.resolve();
    await pass(1000);
    expect(events.map(({ type }) => type)).toEqual(['rollback', 'rollback_repaired']);
  });

  it('is reported once, though a void whose hold was lost is answered after the repair', async () => {
    const { primary, store, events } = await openAccount(100n);
    const copied = primary.length;
    await store.admit(admission(1, 5n));
    await primary.rollBackTo(copied);
    const [release, late] = [primary.void.bind(primary), Promise.withResolvers<void>()];
    primary.void = async (command) => {
      primary.void = release;
      const reply = await release(command);
      await late.promise;
      return reply;
    };
    await store.settle(settlement(2, 1n));
    const voided = store.void({ account: 'acme', requestId: requestId(1) });
    await settled();
    await pass(1000);
    late.resolve();
    expect(await voided).toMatchObject({ code: 'planted' });
    await pass(1000);
    expect(events.map(({ type }) => type)).toEqual(['rollback', 'rollback_repaired']);
  });

  it('does not report an account that is gone, which a renewal finds', async () => {
    const { primary, store, events } = await openAccount(100n);
    await store.admit(admission(1, 5n));
    await primary.rollBackTo(0);
    const renewal = { account: 'acme', requestId: requestId(1), leaseMs: 60_000, checkpoint: 0n, hold: 5n };
    expect(await store.extend(renewal)).toMatchObject({ code: 'unknown' });
    await pass(1000);
    expect(events.map(({ type }) => type)).toEqual(['account_lost']);
  });
});
