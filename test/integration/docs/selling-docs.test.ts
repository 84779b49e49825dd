import { createHmac } from 'node:crypto';
import { type EventEmitter, once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate } from 'node:timers/promises';

import type { Express } from 'express';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { ChatCompletionsRouter } from '../../../src/index.ts';
import { completion, type FakeProvider, startFakeProvider } from '../../../src/testing.ts';
import { documentedModules } from '../../helpers/documented.ts';

const WEBHOOK_SECRET = 'whsec_of_the_test';

interface Shop {
  readonly router: ChatCompletionsRouter;
  signUp(account: string): Promise<string>;
}
interface Plans {
  setPlan(account: string, plan: 'free' | 'pro'): Promise<void>;
}
interface Checkout {
  readonly app: Express;
  checkoutUrl(account: string, cents: number): Promise<string>;
}
interface LowBalance {
  readonly router: ChatCompletionsRouter;
  readonly notices: EventEmitter<{ low: [string, string] }>;
}
interface AutoTopUp {
  readonly router: ChatCompletionsRouter;
  readonly charges: readonly object[];
}
interface Statements {
  statement(account: string, month: string): Promise<string>;
}

/** Records the forms it gets, and answers for payment intents with the account in their ID. */
interface FakeStripe {
  readonly server: Server;
  readonly url: string;
  readonly forms: URLSearchParams[];
}

describe('docs/selling.md', () => {
  let provider: FakeProvider;
  let stripe: FakeStripe;
  let shop: Shop;
  let plans: Plans;
  let checkout: Checkout;
  let low: LowBalance;
  let topUp: AutoTopUp;
  let statements: Statements;
  let shopServer: Server;
  let shopURL: string;

  beforeAll(async () => {
    provider = await startFakeProvider();
    stripe = await startFakeStripe();
    process.env['CREDITS_STORE'] = 'memory:';
    process.env['STRIPE_API'] = stripe.url;
    process.env['STRIPE_SECRET_KEY'] = 'sk_test';
    process.env['STRIPE_WEBHOOK_SECRET'] = WEBHOOK_SECRET;
    const names = ['shop.ts', 'plans.ts', 'checkout.ts', 'lowbalance.ts', 'topup.ts', 'statement.ts'];
    const load = documentedModules('selling.md', names, provider.baseURL);
    shop = (await load('shop.ts')) as Shop;
    plans = (await load('plans.ts')) as Plans;
    checkout = (await load('checkout.ts')) as Checkout;
    low = (await load('lowbalance.ts')) as LowBalance;
    topUp = (await load('topup.ts')) as AutoTopUp;
    statements = (await load('statement.ts')) as Statements;
    shopServer = checkout.app.listen(0, '127.0.0.1');
    await once(shopServer, 'listening');
    shopURL = urlOf(shopServer);
  });

  afterAll(async () => {
    await shop.router.close();
    await low.router.close();
    await topUp.router.close();
    for (const server of [shopServer, stripe.server]) server.close();
    await provider.close();
    for (const name of ['CREDITS_STORE', 'STRIPE_API', 'STRIPE_SECRET_KEY', 'STRIPE_WEBHOOK_SECRET'])
      delete process.env[name];
  });

  const balanceOf = async (account: string): Promise<string> =>
    (await shop.router.credits.balance(account)).balance;

  const isFrozen = async (account: string): Promise<boolean | undefined> =>
    (await shop.router.accounts.get(account))?.frozen;

  async function deliver(event: object, secret = WEBHOOK_SECRET, time?: number): Promise<number> {
    // Spaces, as Stripe sends them: the signature is over these bytes and no others.
    const body = JSON.stringify(event, null, 2);
    const response = await fetch(`${shopURL}/webhooks/stripe`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json; charset=utf-8',
        'stripe-signature': signEvent(body, secret, time),
      },
      body,
    });
    return response.status;
  }

  const paid = (account: string, id = `cs_${account}`): object => ({
    id: `evt_${account}`,
    type: 'checkout.session.completed',
    data: {
      object: { id, amount_total: 1050, currency: 'usd', payment_status: 'paid', metadata: { account } },
    },
  });

  it('signs up with credits once, and a key that works', async () => {
    const key = await shop.signUp('new');
    await shop.signUp('new');
    expect(await balanceOf('new')).toBe('1.00');
    provider.answer(completion({ tokens: { prompt: 1000, completion: 1000 } }));
    await spend(shop.router, key);
    expect(Number(await balanceOf('new'))).toBeLessThan(1);
  });

  it('puts a customer on a plan: its credits, and what all of its keys may do', async () => {
    const { router } = shop;
    await router.keys.create({ account: 'planned' });
    await plans.setPlan('planned', 'free');
    await plans.setPlan('planned', 'free');
    expect(await balanceOf('planned')).toBe('0.50');
    expect(await router.accounts.get('planned')).toMatchObject({
      policy: { models: ['small/*'], requestsPerMinute: 10 },
    });
    await plans.setPlan('planned', 'pro');
    const [allowance] = await router.credits.allowances('planned');
    expect(allowance).toMatchObject({ id: 'plan', amount: '20.00', priority: 10 });
    expect(Number(await balanceOf('planned'))).toBeGreaterThan(0.5);
    expect(await router.accounts.get('planned')).toMatchObject({
      policy: { models: ['small/*', 'large/*'], requestsPerMinute: 300 },
    });
  });

  it('asks Stripe for a page, with the account in the metadata of session and payment', async () => {
    expect(await checkout.checkoutUrl('buyer', 2505)).toBe('https://checkout.stripe.com/c/pay/cs_1');
    const form = Object.fromEntries(stripe.forms.at(-1) ?? []);
    expect(form).toMatchObject({
      'metadata[account]': 'buyer',
      'payment_intent_data[metadata][account]': 'buyer',
      'line_items[0][price_data][unit_amount]': '2505',
      'line_items[0][price_data][product_data][name]': '$25.05 of credits',
    });
  });

  it('grants what was paid, once, by whichever event of the payment tells it', async () => {
    expect(await deliver(paid('payer'))).toBe(200);
    expect(await deliver(paid('payer'))).toBe(200);
    const late = { ...paid('payer'), id: 'evt_other', type: 'checkout.session.async_payment_succeeded' };
    expect(await deliver(late)).toBe(200);
    expect(await balanceOf('payer')).toBe('10.50');
  });

  it('grants nothing for an event that Stripe did not sign, that is old, or that is not paid yet', async () => {
    expect(await deliver(paid('forger'), 'whsec_of_another')).toBe(400);
    expect(await deliver(paid('forger'), WEBHOOK_SECRET, Math.floor(Date.now() / 1000) - 400)).toBe(400);
    const unpaid = {
      id: 'evt_unpaid',
      type: 'checkout.session.completed',
      data: {
        object: { id: 'cs_9', amount_total: 1, payment_status: 'unpaid', metadata: { account: 'forger' } },
      },
    };
    expect(await deliver(unpaid)).toBe(200);
    const empty = await fetch(`${shopURL}/webhooks/stripe`, { method: 'POST' });
    expect(empty.status).toBe(400);
    expect(await balanceOf('forger')).toBe('0.00');
  });

  it('takes back each partial refund alone, once', async () => {
    await deliver(paid('refunded'));
    const refund = (id: string, amount_refunded: number, before: number): object => ({
      id,
      type: 'charge.refunded',
      data: {
        object: { id: 'ch_1', currency: 'usd', amount_refunded, metadata: { account: 'refunded' } },
        previous_attributes: { amount_refunded: before },
      },
    });
    await deliver(refund('evt_r1', 250, 0));
    await deliver(refund('evt_r1', 250, 0));
    expect(await balanceOf('refunded')).toBe('8.00');
    await deliver(refund('evt_r2', 350, 250));
    expect(await balanceOf('refunded')).toBe('7.00');
    expect(await isFrozen('refunded')).toBe(false);
  });

  it('takes the whole amount at a chargeback, and freezes the account, once', async () => {
    await deliver(paid('disputed'));
    await shop.router.credits.adjust('disputed', '-8.00', { id: 'spent', reason: 'spent' });
    const dispute = (status: string): object => ({
      id: 'evt_d1',
      type: 'charge.dispute.created',
      data: { object: { id: 'du_1', amount: 1050, currency: 'usd', payment_intent: 'pi_disputed', status } },
    });
    expect(await deliver(dispute('warning_needs_response'))).toBe(200);
    expect(await balanceOf('disputed')).toBe('2.50');
    expect(await deliver(dispute('needs_response'))).toBe(200);
    expect(await balanceOf('disputed')).toBe('-8.00');
    expect(await isFrozen('disputed')).toBe(true);
    await shop.router.accounts.unfreeze('disputed');
    expect(await deliver(dispute('needs_response'))).toBe(200);
    expect(await balanceOf('disputed')).toBe('-8.00');
    expect(await isFrozen('disputed')).toBe(false);
  });

  it('freezes an account at a chargeback of what is not spent, too', async () => {
    await deliver(paid('saver'));
    const object = { id: 'du_2', amount: 1050, currency: 'usd', payment_intent: 'pi_saver' };
    const dispute = { id: 'evt_d2', type: 'charge.dispute.created', data: { object } };
    expect(await deliver(dispute)).toBe(200);
    expect(await balanceOf('saver')).toBe('0.00');
    expect(await isFrozen('saver')).toBe(true);
  });

  it('leaves a debt, and a frozen account, at a refund of what was spent', async () => {
    await deliver(paid('spender'));
    await shop.router.credits.adjust('spender', '-8.00', { id: 'spent', reason: 'spent' });
    const object = { id: 'ch_2', currency: 'usd', amount_refunded: 1050, metadata: { account: 'spender' } };
    const refund = {
      id: 'evt_r3',
      type: 'charge.refunded',
      data: { object, previous_attributes: { amount_refunded: 0 } },
    };
    expect([await deliver(refund), await deliver(refund)]).toEqual([200, 200]);
    expect(await balanceOf('spender')).toBe('-8.00');
    expect(await isFrozen('spender')).toBe(true);
  });

  it('gives notice of a low balance once, and again after a top-up', async () => {
    const { router, notices } = low;
    const { key } = await router.keys.create({ account: 'poor' });
    await router.credits.grant('poor', '5.0001', { id: 'a' });
    const told: string[] = [];
    notices.on('low', (_account, left) => told.push(left));
    // $0.00075 each, at $0.15 and $0.60 per million.
    provider.answer(completion({ tokens: { prompt: 1000, completion: 1000 } }));
    const first = once(notices, 'low');
    await spend(router, key);
    await first;
    await spend(router, key);
    await router.credits.grant('poor', '10.00', { id: 'b' });
    await spend(router, key);
    const second = once(notices, 'low');
    const hold = await router.holds.open({ account: 'poor', model: 'job', amount: '11.00' });
    await hold.settle('11.00');
    await second;
    expect(told).toEqual(['4.99935', expect.stringMatching(/^3\.99/)]);
  });

  it('tops an account up by itself, once', async () => {
    const { router, charges } = topUp;
    await router.credits.grant('steady', '6.00', { id: 'a' });
    const hold = await router.holds.open({ account: 'steady', model: 'job', amount: '2.00' });
    await hold.settle('2.00');
    await expect.poll(() => router.credits.balance('steady')).toMatchObject({ balance: '24.00' });
    expect(charges).toEqual([
      { account: 'steady', cents: 2000, idempotencyKey: expect.stringMatching(/^steady-top-up-/) },
    ]);
  });

  it('makes a statement whose sums are those of the ledger', async () => {
    const { router } = shop;
    const key = await shop.signUp('stated');
    provider.answer(completion({ tokens: { prompt: 1000, completion: 1000 } }));
    await spend(router, key);
    const month = new Date().toISOString().slice(0, 7);
    const lines = (await statements.statement('stated', month)).trimEnd().split('\r\n');
    // 1,000 × $0.15 and 1,000 × $0.60 per million, times 1.2.
    const [opening, ...rest] = lines.slice(1);
    expect(opening).toMatch(/^opening,.*,0\.00,/);
    expect(rest.find((line) => line.startsWith('grant,'))).toContain(',welcome,');
    expect(rest.find((line) => line.startsWith('charge'))).toMatch(/small\/chat.*0\.0009/);
    expect(rest.at(-1)).toContain(await balanceOf('stated'));
    await expect(statements.statement('none', month)).rejects.toThrow('there is no account none');
  });
});

/** Resolves when the charge is posted and the hooks have seen it: a store in memory answers within a turn. */
async function spend(router: ChatCompletionsRouter, key: string): Promise<void> {
  const request = new Request('http://localhost/v1/chat/completions', {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'small/chat', messages: [{ role: 'user', content: 'Hello' }] }),
  });
  const response = await router.fetch(request);
  expect(response.status).toBe(200);
  await response.text();
  await router.settled(request);
  await setImmediate();
}

/** What Stripe sends as `stripe-signature`. */
function signEvent(body: string, secret: string, time = Math.floor(Date.now() / 1000)): string {
  return `t=${time},v1=${createHmac('sha256', secret).update(`${time}.${body}`).digest('hex')}`;
}

async function startFakeStripe(): Promise<FakeStripe> {
  const forms: URLSearchParams[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const [, intent] = /^\/v1\/payment_intents\/(pi_\w+)$/.exec(request.url ?? '') ?? [];
    if (!intent) forms.push(new URLSearchParams(Buffer.concat(chunks).toString()));
    const answer = intent
      ? { id: intent, metadata: { account: intent.replace('pi_', '') } }
      : { id: 'cs_1', url: 'https://checkout.stripe.com/c/pay/cs_1' };
    response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, url: urlOf(server), forms };
}

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
