import { describe, expect, it } from 'vitest';

import type { CostBatch, ProviderCost, RoutingState, RoutingStore } from '../../src/index.ts';
import { type LedgerFixture, MINUTE, NOON } from './ledger-fixture.ts';

const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MAX = 2n ** 53n - 1n;

/** What operators change of the routing by hand, and what providers have cost, for stores that have a place for it. */
export function describeRouting(ledger: LedgerFixture): void {
  const { clock } = ledger;
  const routing = (): RoutingStore => {
    const found = ledger.store.routing;
    if (!found) throw new Error('this store has no place for changes of the routing');
    return found;
  };
  const cost = (amount: bigint, more: Partial<ProviderCost> = {}): ProviderCost => ({
    provider: 'openai',
    from: NOON,
    until: NOON + HOUR,
    amount,
    ...more,
  });
  const batch = (number: number, ...costs: ProviderCost[]): CostBatch => ({ writer: 'one', number, costs });
  const costs = async (): Promise<string[]> => {
    const found = (await routing().read()).costs;
    return found
      .map(({ provider, from, until, amount }) => `${provider} ${from - NOON} ${until - NOON} ${amount}`)
      .sort();
  };

  describe('changes of the routing', () => {
    it('are one document, which is told once of each version', async (test) => {
      test.skip(!ledger.store.routing);
      const none: RoutingState = { version: '', costs: [] };
      expect(await routing().read()).toEqual(none);
      expect(await routing().write({ from: '', to: 'v-1', document: '{"ü":1}' })).toBe(true);
      expect(await routing().read()).toEqual({ version: 'v-1', document: '{"ü":1}', costs: [] });
      expect(await routing().read('v-1')).toEqual({ version: 'v-1', costs: [] });
      expect(await routing().read('v-0')).toEqual({ version: 'v-1', document: '{"ü":1}', costs: [] });
    });

    it('replace only the version that they were made of', async (test) => {
      test.skip(!ledger.store.routing);
      expect(await routing().write({ from: 'v-0', to: 'v-1', document: 'no' })).toBe(false);
      const first = await Promise.all(
        ['a', 'b', 'c'].map((to) => routing().write({ from: '', to, document: to })),
      );
      expect(first.filter(Boolean)).toHaveLength(1);
      const { version, document } = await routing().read();
      expect(document).toBe(version);
      expect(await routing().write({ from: version, to: 'd', document: 'next' })).toBe(true);
      expect(await routing().write({ from: version, to: 'e', document: 'late' })).toBe(false);
      expect(await routing().write({ from: version, to: 'd', document: 'next' })).toBe(true);
      expect((await routing().read()).document).toBe('next');
    });

    it('hold as much as a document may', async (test) => {
      test.skip(!ledger.store.routing);
      const document = 'x'.repeat(2 ** 20);
      await routing().write({ from: '', to: 'big', document });
      expect((await routing().read()).document).toBe(document);
      await expect(routing().write({ from: 'big', to: 'b', document: `${document}x` })).rejects.toThrow(
        'document must be a string of at most 1048576 characters',
      );
      await expect(routing().write({ from: 'big', to: 'a b', document })).rejects.toThrow(
        'to must be 1 to 64 letters, digits and dashes, got "a b"',
      );
    });
  });

  describe('costs of providers', () => {
    it('add up by provider and period, of all writers', async (test) => {
      test.skip(!ledger.store.routing);
      const other = { provider: 'azure eu', until: NOON + DAY };
      await routing().addCosts(batch(1, cost(5n), cost(7n, other)));
      await routing().addCosts({ ...batch(1, cost(20n), cost(1n, { from: NOON - HOUR })), writer: 'two' });
      await routing().addCosts(batch(2, cost(300n)));
      expect(await costs()).toEqual([
        `azure eu 0 ${DAY} 7`,
        `openai -${HOUR} ${HOUR} 1`,
        `openai 0 ${HOUR} 325`,
      ]);
    });

    it('of a repeated batch add nothing, for an hour', async (test) => {
      test.skip(!ledger.store.routing);
      await routing().addCosts(batch(1, cost(5n)));
      await routing().addCosts(batch(1, cost(5n)));
      await routing().addCosts(batch(3, cost(5n)));
      await routing().addCosts(batch(2, cost(5n)));
      clock.now += HOUR - 1;
      await routing().addCosts(batch(3, cost(5n)));
      expect(await costs()).toEqual([`openai 0 ${HOUR} 10`]);
      clock.now += 1;
      await routing().addCosts(batch(3, cost(5n)));
      expect(await costs()).toEqual([`openai 0 ${HOUR} 15`]);
    });

    it('are forgotten a day after the end of their period', async (test) => {
      test.skip(!ledger.store.routing);
      await routing().addCosts(batch(1, cost(5n)));
      clock.now = NOON + HOUR + DAY - 1;
      await routing().addCosts(batch(2, cost(1n, { from: NOON + DAY, until: NOON + 2 * DAY })));
      expect(await costs()).toHaveLength(2);
      clock.now += 1;
      await routing().addCosts(batch(3));
      expect(await costs()).toEqual([`openai ${DAY} ${2 * DAY} 1`]);
    });

    it('stop at the greatest amount, and are exact up to it', async (test) => {
      test.skip(!ledger.store.routing);
      await routing().addCosts(batch(1, cost(MAX - 2n)));
      await routing().addCosts(batch(2, cost(1n)));
      expect(await costs()).toEqual([`openai 0 ${HOUR} ${MAX - 1n}`]);
      await routing().addCosts(batch(3, cost(MAX)));
      expect(await costs()).toEqual([`openai 0 ${HOUR} ${MAX}`]);
    });

    it('are checked before anything is added', async (test) => {
      test.skip(!ledger.store.routing);
      const invalid: readonly (readonly [CostBatch, string])[] = [
        [batch(0), 'number must be an integer from 1'],
        [{ ...batch(1), writer: '' }, 'writer must be 1 to 64 letters, digits and dashes'],
        [batch(1, cost(1n), cost(0n)), 'amount must be more than 0, got 0'],
        [batch(1, cost(1n, { until: NOON })), `until must be an integer from ${NOON + 1}`],
        [batch(1, cost(1n, { provider: '' })), 'provider must be 1 to 256 characters'],
      ];
      for (const [given, message] of invalid)
        await expect(routing().addCosts(given)).rejects.toThrow(message);
      expect(await costs()).toEqual([]);
    });
  });
}
