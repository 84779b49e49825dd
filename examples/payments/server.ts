/**
 * Credits for money, with Stripe: Checkout, subscriptions, automatic top-ups, refunds and disputes.
 *
 *     STRIPE_SECRET_KEY=sk_test_… STRIPE_WEBHOOK_SECRET=whsec_… npm run example -- payments
 *
 * What you would copy is payments.ts, and the webhook of app.ts.
 */
import { createChatCompletionsRouter } from 'chat-completions-router';
import { Stripe } from 'stripe';
import { announce, listening, models, port, providers } from '../demo/demo.ts';
import { createApp } from './app.ts';
import { Payments } from './payments.ts';

const { STRIPE_SECRET_KEY, STRIPE_WEBHOOK_SECRET, STRIPE_API, CREDITS_STORE = 'memory:' } = process.env;

if (!STRIPE_SECRET_KEY || !STRIPE_WEBHOOK_SECRET) {
  console.log(`
  This example wants a Stripe account in test mode, and Stripe's command line:

export STRIPE_SECRET_KEY=sk_test_…        # of https://dashboard.stripe.com/test/apikeys
stripe listen --forward-to localhost:${port}/webhooks/stripe        # in a second terminal; it prints whsec_…
export STRIPE_WEBHOOK_SECRET=whsec_…
npm run example -- payments
`);
  process.exit(1);
}

const api = new URL(STRIPE_API ?? 'https://api.stripe.com');
const stripe = new Stripe(STRIPE_SECRET_KEY, {
  host: api.hostname,
  port: api.port || 443,
  protocol: api.protocol === 'http:' ? 'http' : 'https',
});

const router = createChatCompletionsRouter({
  store: CREDITS_STORE,
  providers,
  models,
  thresholds: { topUp: { below: '2.00', run: (topUp) => payments.topUp(topUp) } },
});
const payments = new Payments(router, stripe);
const app = createApp({
  router,
  payments,
  stripe,
  webhookSecret: STRIPE_WEBHOOK_SECRET,
  account: 'demo',
});

const server = app.listen(port, '127.0.0.1', async (error) => {
  if (error) throw error;
  await announce(router, server);
  const address = `localhost:${listening(server)}`;
  console.log(`
  Pay      http://${address}/        with the card 4242 4242 4242 4242
  Events   stripe listen --forward-to ${address}/webhooks/stripe
  Plans    have a price in Stripe each, with its name as the lookup key:

stripe prices create --unit-amount 500 --currency usd -d "recurring[interval]=month" -d "product_data[name]=Starter" --lookup-key starter
stripe prices create --unit-amount 2000 --currency usd -d "recurring[interval]=month" -d "product_data[name]=Pro" --lookup-key pro
`);
});

async function close(): Promise<void> {
  server.close(); // takes no new connections
  await router.close(); // lets streams end, and charges them
  server.closeIdleConnections();
}

process.once('SIGINT', close);
process.once('SIGTERM', close);
