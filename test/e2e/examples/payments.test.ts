import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import type { ErrorRequestHandler } from 'express';
import { Redis } from 'ioredis';
import OpenAI from 'openai';
import { Stripe } from 'stripe';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';

import { createApp } from '../../../examples/payments/app.ts';
import { Payments } from '../../../examples/payments/payments.ts';
import type * as Library from '../../../src/index.ts';
import { startExample } from '../../helpers/example.ts';
import { startRedis } from '../../helpers/redis-server.ts';
import { StripeApi, type StripeObject } from '../helpers/stripe-api.ts';

// The one that the example imports, so that its errors are of the same classes.
const { createChatCompletionsRouter, RedisStore } = (await import(
  new URL('../../../dist/index.js', import.meta.url).href
)) as typeof Library;

const SECRET = 'whsec_of_the_test';
const STARTED = /lookup-key pro\n/;

interface Shop {
  readonly router: Library.ChatCompletionsRouter;
  readonly payments: Payments;
  readonly url: string;
}

let api: StripeApi;

beforeEach(async () => {
  api = await new StripeApi().listen();
  onTestFinished(() => api.close());
});

function stripeClient(): Stripe {
  const { port } = api;
  return new Stripe('sk_test_1', { host: '127.0.0.1', port, protocol: 'http', maxNetworkRetries: 0 });
}

async function openShop(store: string | Library.LedgerStore = 'memory:'): Promise<Shop> {
  const router = createChatCompletionsRouter({ store, providers: {}, models: {} });
  const stripe = stripeClient();
  const payments = new Payments(router, stripe);
  await router.keys.create({ account: 'acme' });
  const app = createApp({ router, payments, stripe, webhookSecret: SECRET, account: 'acme' });
  app.use(quietly);
  const server: Server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await router.close();
  });
  return { router, payments, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** Answers what throws as Express does, without a line on stderr. */
const quietly: ErrorRequestHandler = (_error, _request, response, _next) => {
  response.sendStatus(500);
};

let events = 0;

/** Delivers an event, signed as Stripe signs. */
async function deliver(url: string, type: string, object: object, secret = SECRET): Promise<number> {
  events += 1;
  const payload = JSON.stringify({ id: `evt_${events}`, object: 'event', type, data: { object } }, null, 2);
  const signature = stripeClient().webhooks.generateTestHeaderString({ payload, secret });
  const response = await fetch(`${url}/webhooks/stripe`, {
    method: 'POST',
    headers: { 'content-type': 'application/json; charset=utf-8', 'stripe-signature': signature },
    body: payload,
  });
  await response.text();
  return response.status;
}

async function twice(url: string, type: string, object: object): Promise<void> {
  expect([await deliver(url, type, object), await deliver(url, type, object)], type).toEqual([200, 200]);
}

/** The Checkout session that a form of the page leads to. */
async function checkout(url: string, path: string, form: Record<string, string>): Promise<StripeObject> {
  const response = await fetch(url + path, {
    method: 'POST',
    body: new URLSearchParams(form),
    redirect: 'manual',
  });
  expect(response.status, await response.text()).toBe(303);
  const location = response.headers.get('location') ?? '';
  expect(location).toMatch(/^https:\/\/checkout\.stripe\.com\//);
  return api.get(location.split('/').at(-1)!);
}

/** A month's sums, and the balance: each must agree with the other. */
async function books({ router }: Shop): Promise<object> {
  const statement = await router.credits.statement('acme', new Date().toISOString().slice(0, 7));
  const { balance } = await router.credits.balance('acme');
  expect(statement?.closing).toBe(balance);
  return { balance, granted: statement?.granted, adjusted: statement?.adjusted };
}

async function bought(shop: Shop, dollars: string, form = {}): Promise<StripeObject> {
  const { session, intent } = api.pay(await checkout(shop.url, '/buy', { dollars, ...form }));
  await twice(shop.url, 'checkout.session.completed', session);
  return intent;
}

describe('credits by Stripe Checkout', () => {
  it('are granted once, whichever event of the payment comes first', async () => {
    const shop = await openShop();
    const session = await checkout(shop.url, '/buy', { dollars: '25' });
    expect(api.calls.find(({ path }) => path === '/v1/checkout/sessions')?.form).toMatchObject({
      'line_items[0][price_data][unit_amount]': '2500',
      'line_items[0][price_data][product_data][name]': '$25.00 of credits',
      'payment_intent_data[metadata][buys]': 'credits',
    });
    await twice(shop.url, 'checkout.session.completed', session); // to be paid by bank, in days
    expect(await books(shop)).toMatchObject({ balance: '0.00', granted: '0.00' });
    const { intent } = api.pay(session);
    await twice(shop.url, 'payment_intent.succeeded', intent);
    await twice(shop.url, 'checkout.session.async_payment_succeeded', session);
    expect(await books(shop)).toEqual({ balance: '25.00', granted: '25.00', adjusted: '0.00' });
    expect((await shop.router.credits.journal('acme')).map(({ id }) => id)).toEqual([intent.id]);
  });

  it('go to one customer in Stripe, also by two pages at once', async () => {
    const shop = await openShop();
    await Promise.all([
      checkout(shop.url, '/buy', { dollars: '1' }),
      checkout(shop.url, '/buy', { dollars: '2' }),
    ]);
    await checkout(shop.url, '/buy', { dollars: '3' });
    expect(api.all('customer')).toMatchObject([{ metadata: { account: 'acme' } }]);
  });

  it('are not granted for what Stripe did not sign, for other payments, or for amounts that are none', async () => {
    const shop = await openShop();
    const { session, intent } = api.pay(await checkout(shop.url, '/buy', { dollars: '25' }));
    expect(await deliver(shop.url, 'checkout.session.completed', session, 'whsec_of_another')).toBe(400);
    expect((await fetch(`${shop.url}/webhooks/stripe`, { method: 'POST', body: '{}' })).status).toBe(400);
    api.put({ ...intent, metadata: {} });
    await twice(shop.url, 'payment_intent.succeeded', intent);
    expect(await books(shop)).toMatchObject({ balance: '0.00' });
    for (const dollars of ['0', '-5', '1000', '1.5', '1e2']) {
      const body = new URLSearchParams({ dollars });
      expect((await fetch(`${shop.url}/buy`, { method: 'POST', body })).status, dollars).toBe(400);
    }
  });

  it('are confirmed to Stripe once they are durable', async () => {
    const primary = await startRedis(['--repl-diskless-sync-delay', '0']);
    onTestFinished(() => primary.stop());
    const client = new Redis(primary.url);
    onTestFinished(() => client.disconnect());
    const store = new RedisStore({ client, durability: { replicas: 1, timeoutMs: 100 } });
    const shop = await openShop(store);
    const { session } = api.pay(await checkout(shop.url, '/buy', { dollars: '25' }));
    expect(await deliver(shop.url, 'checkout.session.completed', session)).toBe(500);
    const replica = await startRedis(['--replicaof', '127.0.0.1', String(primary.port)]);
    onTestFinished(() => replica.stop());
    await expect.poll(() => deliver(shop.url, 'checkout.session.completed', session)).toBe(200);
    expect(await books(shop)).toMatchObject({ balance: '25.00', granted: '25.00' });
  });
});

describe('a subscription in Stripe', () => {
  const daysAgo = (days: number): Date => new Date(Date.now() - days * 86_400_000);

  /** What the invoice of the current period, or of the next one, changes. */
  function renew(subscription: StripeObject, status: string): StripeObject {
    const invoice = api.put({ ...api.get(String(subscription['latest_invoice'])), status });
    return api.put({ ...subscription, latest_invoice: invoice.id });
  }

  async function subscribed(shop: Shop, days: number): Promise<StripeObject> {
    api.put({ id: 'price_pro', object: 'price', lookup_key: 'pro' });
    await checkout(shop.url, '/subscribe', { plan: 'pro' });
    expect(api.calls.at(-1)?.form).toMatchObject({
      mode: 'subscription',
      'line_items[0][price]': 'price_pro',
    });
    return api.subscribe(api.all('customer')[0]!.id, 'pro', daysAgo(days));
  }

  it('is an allowance from its first paid invoice on, until the end of what was paid', async () => {
    const shop = await openShop();
    const subscription = await subscribed(shop, 3);
    await twice(shop.url, 'customer.subscription.updated', subscription);
    expect(await shop.router.credits.allowances('acme')).toEqual([]);
    const invoice = api.get(String(subscription['latest_invoice']));
    renew(subscription, 'paid');
    await twice(shop.url, 'invoice.paid', invoice);
    await twice(shop.url, 'customer.subscription.updated', subscription);
    expect(await books(shop)).toEqual({ balance: '20.00', granted: '20.00', adjusted: '0.00' });
    const paidUntil = new Date((Math.floor(daysAgo(3).getTime() / 1000) + 30 * 86_400) * 1000);
    const [allowance] = await shop.router.credits.allowances('acme');
    expect(allowance).toMatchObject({ id: subscription.id, amount: '20.00' });
    expect(Math.abs(Number(allowance?.until) - Number(paidUntil))).toBeLessThan(60_000);
  });

  it('begins no period that is not paid, and the next one once it is', async () => {
    const shop = await openShop();
    // A month and three days ago: Stripe has begun the second period, and has not collected it.
    const subscription = await subscribed(shop, 34);
    const item = {
      price: { lookup_key: 'pro' },
      current_period_end: Math.floor(Date.now() / 1000) + 26 * 86_400,
    };
    const renewed = api.put({ ...subscription, items: { object: 'list', data: [item] } });
    await twice(shop.url, 'customer.subscription.updated', renewed);
    api.put({ ...renewed, status: 'past_due' });
    await twice(shop.url, 'customer.subscription.updated', renewed);
    expect(await shop.router.credits.allowances('acme')).toEqual([]);
    api.put({ ...renewed, status: 'active' });
    renew(api.get(renewed.id), 'paid');
    await twice(shop.url, 'invoice.paid', api.get(String(renewed['latest_invoice'])));
    expect(await books(shop)).toMatchObject({ balance: '20.00', granted: '20.00' });
  });

  it('changes its plan in proportion, and ends at the end of what was paid, in any order of events', async () => {
    const shop = await openShop();
    const subscription = renew(await subscribed(shop, 15), 'paid');
    const invoice = api.get(String(subscription['latest_invoice']));
    await twice(shop.url, 'invoice.paid', invoice);
    const { items } = subscription as unknown as { items: { data: [{ current_period_end: number }] } };
    const starter = { ...items.data[0], price: { lookup_key: 'starter' } };
    api.put({ ...subscription, items: { object: 'list', data: [starter] } });
    await twice(shop.url, 'customer.subscription.updated', subscription);
    const [smaller] = await shop.router.credits.allowances('acme');
    expect(smaller).toMatchObject({ amount: '5.00', granted: '5.00' });
    expect(Number(smaller?.remaining)).toBeGreaterThan(10); // about half of 20.00, and half of 5.00
    expect(Number(smaller?.remaining)).toBeLessThan(14);
    const { balance } = await shop.router.credits.balance('acme');

    api.put({ ...api.get(subscription.id), status: 'canceled' });
    await twice(shop.url, 'customer.subscription.deleted', subscription);
    await twice(shop.url, 'invoice.paid', invoice); // late
    await twice(shop.url, 'customer.subscription.updated', subscription);
    expect(await shop.router.credits.balance('acme')).toMatchObject({ balance });
    const [ended] = await shop.router.credits.allowances('acme');
    expect(Number(ended?.until)).toBeLessThanOrEqual(Number(ended?.resetsAt));
  });
});

describe('a refund in Stripe', () => {
  it('takes back each part once, also if it is told before the payment', async () => {
    const shop = await openShop();
    const { session, intent } = api.pay(await checkout(shop.url, '/buy', { dollars: '25' }));
    const charge = api.refund(intent, 250);
    await twice(shop.url, 'charge.refunded', charge);
    await twice(shop.url, 'checkout.session.completed', session);
    expect(await books(shop)).toEqual({ balance: '22.50', granted: '25.00', adjusted: '-2.50' });
    api.refund(intent, 100);
    await twice(shop.url, 'charge.refunded', charge);
    expect(await books(shop)).toEqual({ balance: '21.50', granted: '25.00', adjusted: '-3.50' });
    expect(await shop.router.accounts.get('acme')).toMatchObject({ frozen: false });
  });

  it('of credits that are spent leaves a debt, and freezes the account', async () => {
    const shop = await openShop();
    const intent = await bought(shop, '25');
    const hold = await shop.router.holds.open({ account: 'acme', model: 'job', amount: '20.00' });
    await hold.settle('20.00');
    await twice(shop.url, 'charge.refunded', api.refund(intent, 2500));
    expect(await books(shop)).toMatchObject({ balance: '-20.00', adjusted: '-25.00' });
    expect(await shop.router.accounts.get('acme')).toMatchObject({ frozen: true });
  });
});

describe('a dispute in Stripe', () => {
  const dispute = (intent: StripeObject, status: string): StripeObject =>
    api.put({
      id: 'du_1',
      object: 'dispute',
      amount: 2500,
      currency: 'usd',
      status,
      payment_intent: intent.id,
    });

  it('takes the amount and freezes the account once, so that an operator can unfreeze it', async () => {
    const shop = await openShop();
    const intent = await bought(shop, '25');
    await twice(shop.url, 'charge.dispute.created', dispute(intent, 'warning_needs_response'));
    expect(await shop.router.accounts.get('acme')).toMatchObject({ frozen: false, balance: '25.00' });
    await twice(shop.url, 'charge.dispute.funds_withdrawn', dispute(intent, 'needs_response'));
    await twice(shop.url, 'charge.dispute.created', dispute(intent, 'needs_response'));
    expect(await books(shop)).toMatchObject({ balance: '0.00', adjusted: '-25.00' });
    expect(await shop.router.accounts.get('acme')).toMatchObject({ frozen: true });
    await shop.router.accounts.unfreeze('acme');
    await twice(shop.url, 'charge.dispute.created', dispute(intent, 'needs_response'));
    expect(await shop.router.accounts.get('acme')).toMatchObject({ frozen: false });
  });

  it('that is won gives the amount back, and leaves the account frozen', async () => {
    const shop = await openShop();
    const intent = await bought(shop, '25');
    await twice(shop.url, 'charge.dispute.closed', dispute(intent, 'won'));
    await twice(shop.url, 'charge.dispute.created', dispute(intent, 'needs_response')); // late
    expect(await books(shop)).toMatchObject({ balance: '25.00', granted: '25.00', adjusted: '0.00' });
    expect(await shop.router.accounts.get('acme')).toMatchObject({ frozen: true });
  });
});

describe('an automatic top-up', () => {
  const topUp = { account: 'acme', id: 'top-up-1', unspent: '1.00' };
  const charges = () =>
    api.calls.filter(({ path, method }) => path === '/v1/payment_intents' && method === 'POST');

  it('charges the saved card off session, once', async () => {
    const shop = await openShop();
    await bought(shop, '10', { auto: 'on' });
    await shop.payments.topUp(topUp);
    await shop.payments.topUp(topUp); // after a crash, for example
    expect(charges()).toHaveLength(2);
    expect(charges()[0]).toMatchObject({
      form: { amount: '1000', off_session: 'true', confirm: 'true', payment_method: expect.any(String) },
      idempotencyKey: expect.stringContaining('acme top-up-1'),
    });
    expect(charges()[1]).toEqual(charges()[0]);
    const intents = api.all('payment_intent');
    await twice(shop.url, 'payment_intent.succeeded', intents.at(-1)!);
    expect(intents).toHaveLength(2);
    expect(await books(shop)).toEqual({ balance: '20.00', granted: '20.00', adjusted: '0.00' });
  });

  it('grants nothing for a card that is declined, and what is paid later when it is paid', async () => {
    const shop = await openShop();
    await bought(shop, '10', { auto: 'on' });
    api.offSession = 'card_declined';
    await expect(shop.payments.topUp(topUp)).rejects.toMatchObject({ code: 'card_declined' });
    api.offSession = 'processing';
    await shop.payments.topUp({ ...topUp, id: 'top-up-2' });
    expect(await books(shop)).toMatchObject({ balance: '10.00' });
    const intent = api.all('payment_intent').at(-1)!;
    await twice(
      shop.url,
      'payment_intent.succeeded',
      api.put({ ...intent, status: 'succeeded', amount_received: 1000 }),
    );
    expect(await books(shop)).toMatchObject({ balance: '20.00' });
  });

  it('does not charge who did not ask for it, or who no longer does', async () => {
    const shop = await openShop();
    await bought(shop, '10');
    await shop.payments.topUp(topUp);
    const earlier = await bought(shop, '10', { auto: 'on' });
    await bought(shop, '10');
    await twice(shop.url, 'payment_intent.succeeded', earlier); // again
    await shop.payments.topUp(topUp);
    expect(charges()).toEqual([]);
  });

  it('is what was asked for with the last payment, not on a page that nobody paid', async () => {
    const shop = await openShop();
    await bought(shop, '10', { auto: 'on' });
    await checkout(shop.url, '/buy', { dollars: '25' });
    await checkout(shop.url, '/buy', { dollars: '50', auto: 'on' });
    await shop.payments.topUp(topUp);
    expect(charges()).toMatchObject([{ form: { amount: '1000' } }]);
  });
});

describe('npm run example -- payments', () => {
  it('says what it needs', async () => {
    await expect(startExample('payments', { PORT: '8787' })).rejects.toThrow(
      /stripe listen --forward-to localhost:8787\/webhooks\/stripe/,
    );
  });

  it('sells credits, and buys them again when few are left', async () => {
    const env = {
      STRIPE_API: `http://127.0.0.1:${api.port}`,
      STRIPE_SECRET_KEY: 'sk_test_1',
      STRIPE_WEBHOOK_SECRET: SECRET,
    };
    const example = await startExample('payments', env, STARTED);
    onTestFinished(async () => void (await example.stop()));
    const [url = ''] = /http:\/\/localhost:\d+(?=\/ )/.exec(example.banner) ?? [];
    expect(example.banner).toContain(
      `stripe listen --forward-to ${url.replace('http://', '')}/webhooks/stripe`,
    );
    expect(await (await fetch(url)).text()).toContain('$5.00 of credits');
    const openai = new OpenAI({ baseURL: example.baseURL, apiKey: example.apiKey, maxRetries: 0 });
    const { session, intent } = api.pay(await checkout(url, '/buy', { dollars: '10', auto: 'on' }));
    await twice(url, 'checkout.session.completed', session);
    const balance = async (): Promise<number> =>
      Number((await openai.get<{ balance: string }>('/credits')).balance);
    expect(await balance()).toBe(15);

    await twice(url, 'charge.refunded', api.refund(intent, 1300));
    expect(await balance()).toBe(2);
    const messages = [{ role: 'user' as const, content: 'Good morning' }];
    await openai.chat.completions.create({ model: 'demo/parrot', messages });
    await expect.poll(balance).toBeGreaterThan(11.9);
    expect(api.all('payment_intent')).toHaveLength(2);
    expect(await example.stop()).toBe(0);
  });
});
