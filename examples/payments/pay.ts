/**
 * Plays the payment provider: sends the event of a payment, twice, as happens.
 *
 *     node examples/payments/pay.ts 10.00
 */
import { randomUUID } from 'node:crypto';
import { signEvent } from './stripe.ts';

const { PORT = '8787', STRIPE_WEBHOOK_SECRET = 'whsec_demo' } = process.env;
const [dollars = '10.00'] = process.argv.slice(2);

const body = JSON.stringify({
  id: `evt_${randomUUID()}`,
  type: 'checkout.session.completed',
  data: {
    object: {
      amount_total: Math.round(Number(dollars) * 100),
      currency: 'usd',
      payment_status: 'paid',
      metadata: { account: 'demo' },
    },
  },
});

for (const delivery of ['first', 'second']) {
  const response = await fetch(`http://localhost:${PORT}/webhooks/stripe`, {
    method: 'POST',
    headers: {
      'stripe-signature': signEvent(body, STRIPE_WEBHOOK_SECRET),
      'content-type': 'application/json',
    },
    body,
  });
  console.log(`${delivery} delivery: ${response.status} ${await response.text()}`);
}
