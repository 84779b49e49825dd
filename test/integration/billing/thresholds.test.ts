import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import {
  type BalanceBelow,
  type BudgetAt,
  type ChatCompletionsRouter,
  createChatCompletionsRouter,
  type LedgerEvent,
  type Settled,
  type ThresholdOptions,
  type TopUp,
} from '../../../src/index.ts';
import { openStore } from '../../../src/ledger/stores/open-store.ts';
import { describeEachStore, type OpenLedger } from '../../helpers/each-store.ts';

const OPTIONS = {
  providers: { none: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'sk' } },
  models: { none: { targets: ['none/none'], pricing: 'free' as const } },
};

describeEachStore('thresholds', (newLedger) => {
  let ledger: OpenLedger;
  const routers: ChatCompletionsRouter[] = [];
  const crossed: BalanceBelow[] = [];
  const budgets: BudgetAt[] = [];
  const events: LedgerEvent[] = [];
  const settled: Settled[] = [];
  const errors: Error[] = [];

  beforeEach(() => {
    ledger = newLedger();
  });

  afterEach(async () => {
    for (const router of routers.splice(0)) await router.close();
    for (const list of [crossed, budgets, events, settled, errors]) list.length = 0;
  });

  function open(thresholds: ThresholdOptions): ChatCompletionsRouter {
    const router = createChatCompletionsRouter({
      ...OPTIONS,
      store: ledger(),
      thresholds,
      hooks: {
        onThreshold: (event) => (event.type === 'budget_at' ? budgets.push(event) : crossed.push(event)),
        onLedgerEvent: (event) => events.push(event),
        onSettled: (event) => settled.push(event),
        onError: (error) => errors.push(error),
      },
    });
    routers.push(router);
    return router;
  }

  async function charge(router: ChatCompletionsRouter, amount: string): Promise<void> {
    const hold = await router.holds.open({ account: 'acme', model: 'job', amount });
    await hold.settle(amount);
  }

  it('are reported once each, by one of the processes that charge at the same time', async () => {
    const below = { balanceBelow: ['1.00', '5.00'] };
    const [one, two] = [open(below), open(below)];
    await one.credits.grant('acme', '10.00', { id: 'welcome' });
    await Promise.all(Array.from({ length: 38 }, (_, n) => charge(n % 2 === 0 ? one : two, '0.25')));
    expect(crossed.map(({ threshold, unspent }) => `${threshold} ${unspent}`).toSorted()).toEqual([
      '1.00 1.00',
      '5.00 5.00',
    ]);
    expect(events).toEqual(crossed);
    expect(crossed[0]).toMatchObject({
      type: 'balance_below',
      account: 'acme',
      available: expect.any(String),
    });
  });

  it('are reported for the charge that crosses them, and again after a top-up', async () => {
    const router = open({ balanceBelow: ['5.00', '2.50'] });
    await router.credits.grant('acme', '6.00', { id: 'welcome' });
    await charge(router, '0.99');
    expect(crossed).toEqual([]);
    await charge(router, '4.00');
    expect(crossed).toMatchObject([
      { threshold: '5.00', unspent: '1.01', requestId: settled[1]?.requestId },
      { threshold: '2.50', unspent: '1.01' },
    ]);
    await charge(router, '0.01');
    await router.credits.grant('acme', '10.00', { id: 'again' });
    await charge(router, '6.00');
    expect(crossed.map(({ threshold }) => threshold)).toEqual(['5.00', '2.50', '5.00']);
    expect(settled.at(-1)?.available).toBe('5.00');
  });

  it('are of each account where a function says them', async () => {
    const plans: Record<string, readonly string[]> = { pro: ['5.00'], big: ['8.00'], odd: ['x'] };
    const router = open({
      balanceBelow: (account) => plans[account],
      budgetAt: (account) => (account === 'pro' ? ['0.5'] : undefined),
    });
    for (const account of ['pro', 'big', 'free', 'odd']) {
      await router.credits.grant(account, '10.00', { id: 'welcome' });
      await router.accounts.update(account, { budget: { amount: '12.00', per: 'lifetime' } });
      const hold = await router.holds.open({ account, model: 'job', amount: '6.00' });
      expect(await hold.settle('6.00')).toMatchObject({ charged: '6.00' });
    }
    expect(crossed.map(({ account, threshold }) => `${account} ${threshold}`)).toEqual([
      'pro 5.00',
      'big 8.00',
    ]);
    expect(budgets.map(({ account, share }) => `${account} ${share}`)).toEqual(['pro 0.5']);
    expect(errors.map(({ message }) => message)).toEqual(['The thresholds of account odd are not known']);
    expect(String(errors[0]?.cause)).toContain('thresholds.balanceBelow[0] must be a decimal string of USD');
  });

  it('are not crossed by what is only held', async () => {
    const router = open({ balanceBelow: ['5.00'] });
    await router.credits.grant('acme', '10.00', { id: 'welcome' });
    const large = await router.holds.open({ account: 'acme', model: 'job', amount: '9.00' });
    await charge(router, '0.50');
    expect(settled.at(-1)?.available).toBe('0.50');
    await large.void();
    expect(crossed).toEqual([]);
  });

  describe('of a budget', () => {
    const shares = { budgetAt: ['1', '0.80', '0.5', '0.8'] };

    it('are reported once each, by one of the processes that charge at the same time', async () => {
      const [one, two] = [open(shares), open(shares)];
      await one.credits.grant('acme', '100.00', { id: 'welcome' });
      await one.accounts.update('acme', { budget: { amount: '10.00', per: 'lifetime' } });
      await Promise.all(Array.from({ length: 40 }, (_, n) => charge(n % 2 === 0 ? one : two, '0.25')));
      const reached = { account: 'acme', limitedBy: 'account', amount: '10.00', per: 'lifetime' };
      expect(budgets.toSorted((a, b) => (a.share < b.share ? -1 : 1))).toEqual([
        { type: 'budget_at', ...reached, share: '0.5', spent: '5.00', requestId: expect.any(String) },
        { type: 'budget_at', ...reached, share: '0.8', spent: '8.00', requestId: expect.any(String) },
        { type: 'budget_at', ...reached, share: '1', spent: '10.00', requestId: expect.any(String) },
      ]);
      expect(events).toEqual(budgets);
      expect(errors).toEqual([]);
    });

    it('are reported of each budget that a charge moves', async () => {
      const router = open(shares);
      await router.credits.grant('acme', '100.00', { id: 'welcome' });
      const budget = [
        { amount: '2.00', per: 'month' },
        { amount: '4.00', per: 'lifetime' },
      ] as const;
      await router.accounts.update('acme', { budget });
      const { id } = await router.keys.create({
        account: 'acme',
        budget: { amount: '1.50', per: 'lifetime' },
      });
      const hold = await router.holds.open({ account: 'acme', model: 'job', amount: '1.20', key: id });
      await hold.settle('1.20');
      const common = { type: 'budget_at', account: 'acme', requestId: hold.requestId, spent: '1.20' };
      const ofKey = { ...common, limitedBy: 'key', key: id, amount: '1.50', per: 'lifetime' };
      const ofAccount = { ...common, limitedBy: 'account', amount: '2.00', per: 'month' };
      expect(budgets).toEqual([
        { ...ofKey, share: '0.5' },
        { ...ofKey, share: '0.8' },
        { ...ofAccount, share: '0.5', resetsAt: expect.any(Number) },
      ]);
    });

    it('are reported again after a refund', async () => {
      const router = open(shares);
      await router.credits.grant('acme', '100.00', { id: 'welcome' });
      await router.accounts.update('acme', { budget: { amount: '2.00', per: 'lifetime' } });
      await charge(router, '1.00');
      expect(budgets.map(({ share }) => share)).toEqual(['0.5']);
      const charged = settled[0]!;
      await router.credits.refund(charged.requestId, { account: 'acme', reason: 'broken' });
      await charge(router, '1.00');
      expect(budgets.map(({ share }) => share)).toEqual(['0.5', '0.5']);
    });

    it('are not asked for unless they are set', async () => {
      const router = open({ balanceBelow: ['1.00'] });
      await router.credits.grant('acme', '100.00', { id: 'welcome' });
      await router.accounts.update('acme', { budget: { amount: '1.00', per: 'lifetime' } });
      await charge(router, '1.00');
      expect([budgets, events]).toEqual([[], []]);
    });
  });

  describe('with a top-up', () => {
    const asked: TopUp[] = [];

    afterEach(() => {
      asked.length = 0;
    });

    it('ask for it once at a time, from all processes', async () => {
      let answer = (): void => {};
      const paid = new Promise<void>((resolve) => {
        answer = resolve;
      });
      const run = async (topUp: TopUp): Promise<void> => {
        asked.push(topUp);
        await paid;
        await one.credits.grant(topUp.account, '20.00', { id: topUp.id });
      };
      const thresholds = { topUp: { below: '5.00', run } };
      const [one, two] = [open(thresholds), open(thresholds)];
      await one.credits.grant('acme', '8.00', { id: 'welcome' });
      await Promise.all(Array.from({ length: 16 }, (_, n) => charge(n % 2 === 0 ? one : two, '0.25')));
      await vi.waitFor(() => expect(asked).toHaveLength(1), { timeout: 20_000 });
      answer();
      await expect
        .poll(async () => (await one.credits.balance('acme')).balance, { timeout: 20_000 })
        .toBe('24.00');
      await charge(two, '1.00');
      expect(asked).toHaveLength(1);

      // The next one has an id of its own.
      await charge(one, '20.00');
      await vi.waitFor(() => expect(asked).toHaveLength(2), { timeout: 20_000 });
      expect(asked[0]?.id).not.toBe(asked[1]?.id);
      await expect
        .poll(async () => (await one.credits.balance('acme')).balance, { timeout: 20_000 })
        .toBe('23.00');
    });

    it('ask for it when a request is refused for lack of credits', async () => {
      const router = open({
        topUp: { below: '1.00', run: ({ account, id }) => router.credits.grant(account, '9.00', { id }) },
      });
      await router.credits.grant('acme', '0.50', { id: 'welcome' });
      await expect(charge(router, '0.75')).rejects.toMatchObject({ code: 'insufficient_credits' });
      await expect
        .poll(async () => (await router.credits.balance('acme')).balance, { timeout: 20_000 })
        .toBe('9.50');
    });

    it('ask for it when a request is refused that a credit line does not cover either', async () => {
      const router = open({
        topUp: { below: '1.00', run: ({ account, id }) => router.credits.grant(account, '9.00', { id }) },
      });
      await router.credits.grant('acme', '0.50', { id: 'welcome' });
      await router.credits.setCreditLimit('acme', '20.00');
      await expect(charge(router, '30.00')).rejects.toMatchObject({ code: 'insufficient_credits' });
      await expect
        .poll(async () => (await router.credits.balance('acme')).balance, { timeout: 20_000 })
        .toBe('9.50');
    });

    it('ask with the id of a process that died, and not while it may be alive', async () => {
      const store = openStore(ledger());
      const since = (await store.claim?.('top-up acme', 3_600_000)) ?? 0;
      const run = (topUp: TopUp) => asked.push(topUp);
      const first = open({ topUp: { below: '5.00', retryMs: 3_600_000, run } });
      await first.credits.grant('acme', '5.50', { id: 'welcome' });
      await charge(first, '1.00');
      await first.close();
      expect(asked).toEqual([]);

      await store.claim?.('top-up acme', 0);
      const died = (await store.claim?.('top-up acme', 1)) ?? 0;
      await vi.waitFor(async () => expect(await store.balance('acme')).toBeDefined());
      expect(died).toBeGreaterThanOrEqual(since);
      await expect
        .poll(
          async () => {
            const next = open({ topUp: { below: '5.00', run } });
            await charge(next, '0.01');
            await next.close();
            return asked;
          },
          { timeout: 20_000 },
        )
        .toEqual([{ account: 'acme', id: `top-up-${died.toString(36)}`, unspent: expect.any(String) }]);
    });

    it('ask with an id of its own after a process that died when it had granted', async () => {
      const store = openStore(ledger());
      const since = (await store.claim?.('top-up acme', 1)) ?? 0;
      const run = async (topUp: TopUp): Promise<void> => {
        asked.push(topUp);
        await router.credits.grant(topUp.account, '20.00', { id: topUp.id });
      };
      const router = open({ topUp: { below: '5.00', run } });
      await router.credits.grant('acme', '20.00', { id: `top-up-${since.toString(36)}` });
      // The claim has ended.
      await expect.poll(() => Date.now(), { interval: 1 }).toBeGreaterThan(since + 1);
      await charge(router, '16.00');
      await expect
        .poll(async () => (await router.credits.balance('acme')).balance, { timeout: 20_000 })
        .toBe('24.00');
      expect(asked).toHaveLength(1);
    });

    it('do not ask again at once if it fails, and say why', async () => {
      const run = (topUp: TopUp): never => {
        asked.push(topUp);
        throw new Error('card declined');
      };
      const first = open({ topUp: { below: '5.00', run } });
      await first.credits.grant('acme', '5.50', { id: 'welcome' });
      await charge(first, '1.00');
      await first.close();
      const second = open({ topUp: { below: '5.00', run } });
      await charge(second, '1.00');
      await second.close();
      expect(asked).toHaveLength(1);
      expect(errors.map(({ message, cause }) => [message, String(cause)])).toEqual([
        ['The top-up of account acme is repeated later: it failed', 'Error: card declined'],
      ]);
    });

    it('ask again, with the same id, after a call that does not end', async () => {
      const run = (topUp: TopUp): Promise<unknown> => {
        asked.push(topUp);
        if (asked.length === 1) return new Promise(() => {});
        return router.credits.grant(topUp.account, '20.00', { id: topUp.id });
      };
      const router = open({ topUp: { below: '5.00', run, retryMs: 100 } });
      await router.credits.grant('acme', '5.50', { id: 'welcome' });
      await charge(router, '1.00');
      await vi.waitFor(() => expect(errors).toHaveLength(1), { timeout: 20_000 });
      expect(String(errors[0]?.cause)).toBe('Error: thresholds.topUp.run has not ended within 100 ms');
      await charge(router, '0.50');
      await expect
        .poll(async () => (await router.credits.balance('acme')).balance, { timeout: 20_000 })
        .toBe('24.00');
      expect(asked[1]?.id).toBe(asked[0]?.id);
    });

    it('tell what is held as unspent', async () => {
      const router = open({ topUp: { below: '5.00', run: (topUp) => asked.push(topUp) } });
      await router.credits.grant('acme', '6.00', { id: 'welcome' });
      const large = await router.holds.open({ account: 'acme', model: 'job', amount: '3.00' });
      await charge(router, '1.00');
      await vi.waitFor(() => expect(asked).toMatchObject([{ unspent: '5.00' }]), { timeout: 20_000 });
      await large.void();
    });

    it('do not ask for a frozen account', async () => {
      const router = open({ topUp: { below: '5.00', run: (topUp) => asked.push(topUp) } });
      await router.credits.grant('acme', '5.50', { id: 'welcome' });
      const hold = await router.holds.open({ account: 'acme', model: 'job', amount: '1.00' });
      await router.accounts.freeze('acme');
      await hold.settle('1.00');
      await router.close();
      expect(asked).toEqual([]);
    });
  });
});

describe('the option thresholds', () => {
  it.each([
    [{ balanceBelow: '5.00' }, 'thresholds.balanceBelow must be a list of at most 16 amounts, got "5.00"'],
    [{ balanceBelow: ['5.00', 'x'] }, 'thresholds.balanceBelow[1] must be a decimal string of USD'],
    [{ balanceBelow: ['-1'] }, 'thresholds.balanceBelow[0] must be 0 or more, got -1'],
    [{ topUp: { below: '1' } }, 'thresholds.topUp.run must be a function'],
    [{ topUp: { below: 1, run: () => {} } }, 'thresholds.topUp.below must be a decimal string of USD'],
    [{ topUp: { below: '1', run: () => {}, retryMs: 0 } }, 'thresholds.topUp.retryMs must be a number'],
    [{ ballanceBelow: [] }, 'ballanceBelow'],
    [{ budgetAt: '0.8' }, 'thresholds.budgetAt must be a list of at most 16 shares, got "0.8"'],
    [{ budgetAt: ['0.8', '0'] }, 'thresholds.budgetAt[1] must be a string of more than "0", and "1" at most'],
    [{ budgetAt: ['0.0000'] }, 'thresholds.budgetAt[0] must be a string of more than "0", and "1" at most'],
    [{ budgetAt: ['1.01'] }, 'thresholds.budgetAt[0] must be a string of more than "0", and "1" at most'],
    [{ budgetAt: ['0.00001'] }, 'with at most four decimal places, as "0.8", got "0.00001"'],
    [
      { budgetAt: [0.8] },
      'thresholds.budgetAt[0] must be a string of more than "0", and "1" at most, with at most four decimal places, as "0.8", got 0.8',
    ],
  ])('is refused by the name of what is wrong: %j', (thresholds, message) => {
    const make = () => createChatCompletionsRouter({ ...OPTIONS, store: 'memory:', thresholds } as never);
    expect(make).toThrow(message);
  });
});
