/**
 * Credits for money: a payment provider's webhook tops up an account, once for each payment.
 *
 *     npm run example -- payments
 *     node examples/payments/pay.ts 10.00     in a second terminal: pays, as often as you like
 */
import { createChatCompletionsRouter } from 'chat-completions-router';
import express from 'express';
import { announce, models, port, providers } from '../demo/demo.ts';
import { readEvent } from './stripe.ts';

const secret = process.env['STRIPE_WEBHOOK_SECRET'] ?? 'whsec_demo'; // in your app: the real one, or none starts

const router = createChatCompletionsRouter({ store: 'memory:', providers, models });

const app = express();
app.use('/v1', router);

app.post('/webhooks/stripe', express.raw({ type: '*/*' }), async (request, response) => {
  let event;
  try {
    event = readEvent(request.body, request.get('stripe-signature') ?? '', secret);
  } catch (error) {
    response.status(400).send(String(error));
    return;
  }
  const { amount_total, currency, payment_status, metadata } = event.data.object;
  const isPaid = event.type === 'checkout.session.completed' && payment_status === 'paid';
  if (isPaid && currency === 'usd' && metadata.account !== undefined) {
    // Events are delivered more than once; the same id again grants nothing. If this throws, they try again later.
    await router.credits.grant(metadata.account, dollars(amount_total), { id: event.id });
  }
  response.sendStatus(200);
});

/** `1050` cents → `10.50`, without a float on the way. */
function dollars(cents: number): string {
  return `${Math.trunc(cents / 100)}.${String(cents % 100).padStart(2, '0')}`;
}

const server = app.listen(port, '127.0.0.1', () => announce(router, server));

async function close(): Promise<void> {
  server.close(); // takes no new connections
  await router.close(); // lets streams end, and charges them
  server.closeIdleConnections();
}

process.once('SIGINT', close);
process.once('SIGTERM', close);
