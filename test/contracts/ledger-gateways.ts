import { describe, expect, it } from 'vitest';

import { type LedgerFixture, MINUTE } from './ledger-fixture.ts';

/** Gateways announce that they use a store; a migration waits until none does. */
export function describeGateways(ledger: LedgerFixture): void {
  const { clock } = ledger;
  const announce = (gateway: string, leaseMs: number): Promise<void> | undefined =>
    ledger.store.announceGateway?.(gateway, leaseMs);
  const live = async (): Promise<object> => Object.fromEntries((await ledger.store.liveGateways?.()) ?? []);

  describe('gateways', () => {
    it('count until their lease ends, unless they announce themselves again', async (test) => {
      test.skip(!ledger.store.announceGateway || !ledger.store.liveGateways);
      expect(await live()).toEqual({});
      await announce('one pid 1', 2 * MINUTE);
      clock.now += MINUTE;
      await announce('two pid 2', 2 * MINUTE);
      expect(await live()).toEqual({ 'one pid 1': MINUTE, 'two pid 2': 2 * MINUTE });
      await announce('one pid 1', 2 * MINUTE);
      clock.now += 2 * MINUTE - 1;
      expect(await live()).toEqual({ 'one pid 1': 1, 'two pid 2': 1 });
      clock.now += 1;
      expect(await live()).toEqual({});
    });

    it('that say goodbye count no longer', async (test) => {
      test.skip(!ledger.store.announceGateway || !ledger.store.liveGateways);
      await announce('one pid 1', 2 * MINUTE);
      await announce('two pid 2', 2 * MINUTE);
      await announce('one pid 1', 0);
      expect(await live()).toEqual({ 'two pid 2': 2 * MINUTE });
      await announce('two pid 2', 0);
      expect(await live()).toEqual({});
    });
  });
}
