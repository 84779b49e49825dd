import { describe, expect, it } from 'vitest';

import { type LedgerFixture, MINUTE, NOON } from './ledger-fixture.ts';

/** Names that one process at a time claims, for work that must not be done twice at once. */
export function describeClaims(ledger: LedgerFixture): void {
  const { clock } = ledger;
  const claim = (name: string, leaseMs: number) => ledger.store.claim?.(name, leaseMs);

  describe('a claim', () => {
    it('is given to one process, until it runs out', async (test) => {
      test.skip(!ledger.store.claim);
      const tries = await Promise.all([claim('acme', MINUTE), claim('acme', MINUTE), claim('other', MINUTE)]);
      expect(tries.filter((since) => since === NOON)).toHaveLength(2);
      expect(tries[2]).toBe(NOON);
      clock.now += MINUTE - 1;
      expect(await claim('acme', MINUTE)).toBeUndefined();
      clock.now += 1;
      expect(await claim('acme', MINUTE)).toBe(NOON);
      expect(await claim('acme', MINUTE)).toBeUndefined();
      clock.now += MINUTE;
      expect(await claim('acme', MINUTE)).toBe(NOON);
    });

    it('is taken over when the clock was set back by more than a minute, and not before', async (test) => {
      test.skip(!ledger.store.claim);
      await claim('acme', MINUTE);
      clock.now -= MINUTE;
      expect(await claim('acme', MINUTE)).toBeUndefined();
      clock.now -= 1;
      expect(await claim('acme', MINUTE)).toBe(NOON);
      expect(await claim('acme', MINUTE)).toBeUndefined();
    });

    it('begins again once it was ended', async (test) => {
      test.skip(!ledger.store.claim);
      expect(await claim('acme', 0)).toBeUndefined();
      await claim('acme', MINUTE);
      expect(await claim('acme', 0)).toBeUndefined();
      clock.now += 5;
      expect(await claim('acme', MINUTE)).toBe(NOON + 5);
      expect(await claim('acme', MINUTE)).toBeUndefined();
    });
  });
}
