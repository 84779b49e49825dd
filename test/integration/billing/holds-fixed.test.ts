import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import {
  type ChatCompletionsRouter,
  createChatCompletionsRouter,
  HoldConflictError,
  type Settled,
} from '../../../src/index.ts';
import { openStore } from '../../../src/ledger/stores/open-store.ts';
import { createRouterWithTimers } from '../../../src/router/router.ts';
import { describeEachStore, type OpenLedger } from '../../helpers/each-store.ts';

const PROVIDERS = {
  providers: { none: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'sk' } },
  models: { none: { targets: ['none/none'], pricing: 'free' as const } },
};
const FLUX = { account: 'acme', model: 'images/flux', amount: '0.40' };

describeEachStore('a hold for what is not a chat completion', (newLedger) => {
  let ledger: OpenLedger;
  let router: ChatCompletionsRouter;
  const others: ChatCompletionsRouter[] = [];
  const settled: Settled[] = [];

  function open(): ChatCompletionsRouter {
    const hooks = { onSettled: (event: Settled) => settled.push(event), onError: () => {} };
    const other = createChatCompletionsRouter({ ...PROVIDERS, store: ledger(), hooks });
    others.push(other);
    return other;
  }

  beforeEach(async () => {
    ledger = newLedger();
    settled.length = 0;
    router = open();
    await router.credits.grant('acme', '1.00', { id: 'welcome' });
  });

  afterEach(async () => {
    const { balance, held, totalUsed } = await router.credits.balance('acme');
    expect({ held, sum: (Number(balance) + Number(totalUsed)).toFixed(2) }).toEqual({
      held: '0.00',
      sum: '1.00',
    });
    for (const other of others.splice(0)) await other.close();
  });

  const balance = async () => {
    const { balance: available, held, totalUsed: used } = await router.credits.balance('acme');
    return { available, held, used };
  };

  it('takes its amount until it is settled, and is charged what it cost', async () => {
    const hold = await router.holds.open({ ...FLUX, provider: 'replicate' });
    expect(hold).toMatchObject({ account: 'acme', key: 'host', amount: '0.40', state: 'open' });
    expect(await balance()).toEqual({ available: '0.60', held: '0.40', used: '0.00' });
    const charge = await hold.settle('0.25', { units: 3, cost: '0.20' });
    expect(charge).toEqual({ charged: '0.25', writtenOff: '0.00' });
    expect(hold.state).toBe('settled');
    expect(await balance()).toEqual({ available: '0.75', held: '0.00', used: '0.25' });
    const [, line] = await router.credits.journal('acme');
    expect(line).toMatchObject({
      id: hold.requestId,
      type: 'charge',
      amount: '0.25',
      held: '0.40',
      model: 'images/flux',
      key: 'host',
      usage: { units: 3, cost: '0.20', provider: 'replicate', ending: 'finished' },
    });
    expect(settled).toMatchObject([
      {
        requestId: hold.requestId,
        charged: '0.25',
        provider: 'replicate',
        model: 'images/flux',
        voided: false,
      },
    ]);
  });

  it('is released by void, as often as that is called', async () => {
    const hold = await router.holds.open(FLUX);
    await hold.void();
    await hold.void();
    expect(hold.state).toBe('voided');
    expect(await balance()).toEqual({ available: '1.00', held: '0.00', used: '0.00' });
    await expect(hold.settle('0.10')).rejects.toMatchObject({ code: 'already_voided' });
    expect(settled).toMatchObject([{ voided: true, charged: '0.00' }]);
  });

  it('is charged once, however often and with whatever it is settled', async () => {
    const hold = await router.holds.open(FLUX);
    const charges = await Promise.all([hold.settle('0.10'), hold.settle('0.30'), hold.settle('0.10')]);
    expect(charges.map(({ charged }) => charged)).toEqual(['0.10', '0.10', '0.10']);
    await expect(hold.void()).rejects.toMatchObject({ code: 'already_settled' });
    expect(await balance()).toEqual({ available: '0.90', held: '0.00', used: '0.10' });
  });

  it('is charged beyond its amount as far as the balance goes', async () => {
    const hold = await router.holds.open(FLUX);
    expect(await hold.settle('1.50')).toEqual({ charged: '1.00', writtenOff: '0.50' });
  });

  it('is refused as a chat completion is, with nothing held', async () => {
    const refused = router.holds.open({ ...FLUX, amount: '1.01' });
    await expect(refused).rejects.toMatchObject({
      code: 'insufficient_credits',
      status: 402,
      required: '1.01',
      available: '1.00',
    });
    await router.accounts.freeze('acme');
    await expect(router.holds.open(FLUX)).rejects.toMatchObject({ code: 'account_frozen' });
    await router.accounts.unfreeze('acme');
    await expect(router.holds.open({ ...FLUX, account: 'other' })).rejects.toMatchObject({ status: 402 });
  });

  it('counts in the budget and the limits of the key that it names', async () => {
    const { id } = await router.keys.create({
      account: 'acme',
      budget: { amount: '0.50', per: 'day' },
      concurrentRequests: 1,
    });
    const hold = await router.holds.open({ ...FLUX, key: id });
    await expect(router.holds.open({ ...FLUX, key: id })).rejects.toMatchObject({
      code: 'too_many_concurrent_requests',
      limit: 1,
    });
    await hold.settle('0.40');
    await expect(router.holds.open({ ...FLUX, key: id })).rejects.toMatchObject({
      code: 'budget_exceeded',
      left: '0.10',
      budget: { amount: '0.50', per: 'day' },
    });
    await router.keys.revoke('acme', id);
    await expect(router.holds.open({ ...FLUX, key: id })).rejects.toMatchObject({ code: 'revoked_api_key' });
  });

  it('counts under a name that is no key of the account', async () => {
    const hold = await router.holds.open({ ...FLUX, key: 'nightly-job' });
    await hold.settle('0.10');
    const [usage] = await router.usage.query({ account: 'acme', groupBy: ['key'] });
    expect(usage).toMatchObject({ key: 'nightly-job', requests: 1, errors: 0, charged: '0.10' });
  });

  it.each([
    [{ amount: '-1' }, 'amount must be 0 or more, got -1'],
    [{ amount: 0.4 }, 'amount must be a decimal string'],
    [{ account: '' }, 'account must be'],
    [{ model: 'a\nb' }, 'model must be a string of 1 to 255 characters on one line'],
    [{ id: '' }, 'id must be a string of 1 to 255 characters on one line'],
    [{ tokens: -1 }, 'tokens must be an integer of 0 or more, got -1'],
    [{ modle: 'x' }, 'options has an unknown key "modle"; did you mean "model"?'],
  ])('is refused by the name of what is wrong: %j', async (wrong, message) => {
    await expect(router.holds.open({ ...FLUX, ...(wrong as object) })).rejects.toThrow(message);
    const hold = await router.holds.open(FLUX);
    await expect(hold.settle('0.10', { units: 0.5 })).rejects.toThrow('units must be an integer');
    await expect(hold.settle('ten')).rejects.toThrow('amount must be a decimal string');
    expect(hold.state).toBe('open');
    await hold.void();
  });

  describe('with an id', () => {
    const JOB = { ...FLUX, id: 'job 17' };

    it('is the same hold in each process, and its charge the same', async () => {
      const hold = await router.holds.open(JOB);
      const again = await router.holds.open(JOB);
      const elsewhere = await open().holds.open(JOB);
      expect([again.requestId, elsewhere.requestId]).toEqual([hold.requestId, hold.requestId]);
      expect(elsewhere).toMatchObject({ state: 'open', amount: '0.40' });
      expect(await balance()).toMatchObject({ held: '0.40' });

      expect(await elsewhere.settle('0.30')).toMatchObject({ charged: '0.30' });
      expect(await hold.settle('0.40')).toMatchObject({ charged: '0.30' });
      const ended = await open().holds.open(JOB);
      expect(ended).toMatchObject({ requestId: hold.requestId, state: 'settled' });
      expect(await ended.settle('0.40')).toMatchObject({ charged: '0.30' });
      await expect(ended.void()).rejects.toBeInstanceOf(HoldConflictError);
      expect(await balance()).toEqual({ available: '0.70', held: '0.00', used: '0.30' });
    });

    it('is one hold for processes that open it at the same time', async () => {
      const routers = [router, open(), open()];
      const holds = await Promise.all(routers.map((each) => each.holds.open(JOB)));
      expect(new Set(holds.map(({ requestId }) => requestId)).size).toBe(1);
      await Promise.all(holds.map((hold) => hold.settle('0.20')));
      expect(await balance()).toEqual({ available: '0.80', held: '0.00', used: '0.20' });
    });

    it('takes a new hold after a void', async () => {
      const hold = await router.holds.open(JOB);
      await hold.void();
      const next = await router.holds.open(JOB);
      expect(next.requestId).not.toBe(hold.requestId);
      await next.settle('0.10');
    });

    it('is refused for another model or amount, with nothing held', async () => {
      const hold = await router.holds.open(JOB);
      for (const other of [{ amount: '0.50' }, { model: 'images/other' }]) {
        await expect(router.holds.open({ ...JOB, ...other })).rejects.toMatchObject({
          code: 'id_reused',
          requestId: hold.requestId,
        });
      }
      expect(await balance()).toMatchObject({ held: '0.40' });
      await hold.void();
    });

    it('has its lease renewed at once by the process that takes it over', async () => {
      const dying = createRouterWithTimers(
        { ...PROVIDERS, store: ledger(), hooks: { onError: () => {} } },
        { leaseMs: 60_000, renewMs: 3_600_000 },
      );
      const hold = await dying.holds.open(JOB);
      const store = openStore(ledger());
      const due = async () => (await store.request('acme', hold.requestId))?.due ?? 0;
      const first = await due();
      const taken = await router.holds.open(JOB);
      expect(taken.requestId).toBe(hold.requestId);
      expect(await due()).toBeGreaterThanOrEqual(first + 60_000);
      await taken.settle('0.30');
      await hold.settle('0.30');
      await dying.close();
    });

    it('takes the place of one whose process died, so that the work is charged once', async () => {
      const dying = createRouterWithTimers(
        { ...PROVIDERS, store: ledger(), hooks: { onError: () => {} } },
        { leaseMs: 50, renewMs: 3_600_000 },
      );
      const lost = await dying.holds.open(JOB);
      const store = openStore(ledger());
      await vi.waitFor(
        async () => {
          await store.sweep(10);
          expect(await store.request('acme', lost.requestId)).toMatchObject({ state: 'expired', amount: 0n });
        },
        { timeout: 20_000 },
      );
      const next = await router.holds.open(JOB);
      expect(next.requestId).not.toBe(lost.requestId);
      await expect(lost.settle('0.40')).rejects.toMatchObject({ code: 'already_voided' });
      expect(await next.settle('0.30')).toMatchObject({ charged: '0.30' });
      expect(await balance()).toEqual({ available: '0.70', held: '0.00', used: '0.30' });
      await dying.close();
    });
  });

  it('keeps its lease for as long as it is open', async () => {
    const busy = createRouterWithTimers({ ...PROVIDERS, store: ledger() }, { leaseMs: 60_000, renewMs: 5 });
    const hold = await busy.holds.open(FLUX);
    const store = openStore(ledger());
    const due = async () => (await store.request('acme', hold.requestId))?.due ?? 0;
    const first = await due();
    await vi.waitFor(async () => expect(await due()).toBeGreaterThan(first), { timeout: 20_000 });
    await hold.settle('0.10');
    await busy.close();
  });

  it('is voided when the router is closed, and none is opened then', async () => {
    const closing = createChatCompletionsRouter({ ...PROVIDERS, store: ledger(), closeTimeoutMs: 1 });
    const hold = await closing.holds.open(FLUX);
    const closed = closing.close();
    await expect(closing.holds.open(FLUX)).rejects.toMatchObject({ code: 'router_closing' });
    await closed;
    await expect(hold.settle('0.10')).rejects.toMatchObject({ code: 'already_voided' });
    if (typeof ledger() !== 'string') return;
    expect(await balance()).toMatchObject({ available: '1.00', held: '0.00' });
  });

  it('is waited for when the router is closed', async () => {
    const closing = createChatCompletionsRouter({ ...PROVIDERS, store: ledger() });
    const hold = await closing.holds.open(FLUX);
    const closed = closing.close();
    expect(await hold.settle('0.10')).toMatchObject({ charged: '0.10' });
    await closed;
    expect(await balance()).toMatchObject({ available: '0.90' });
  });
});
