import type { ChatCompletionsRouter } from 'chat-completions-router';
import express, { type Express } from 'express';
import type Stripe from 'stripe';
import type { Payments } from './payments.ts';

export interface AppParts {
  readonly router: ChatCompletionsRouter;
  readonly payments: Payments;
  readonly stripe: Stripe;
  /** `whsec_…` */
  readonly webhookSecret: string;
  /** Who pays. In your app: the account of who is signed in. */
  readonly account: string;
}

export function createApp({ router, payments, stripe, webhookSecret, account }: AppParts): Express {
  const app = express();
  app.use('/v1', router);

  // express.raw: Stripe signs the bytes. This stands before any express.json().
  app.post('/webhooks/stripe', express.raw({ type: '*/*', limit: '1mb' }), async (request, response) => {
    let event;
    try {
      event = stripe.webhooks.constructEvent(
        request.body,
        request.get('stripe-signature') ?? '',
        webhookSecret,
      );
    } catch {
      response.status(400).send('invalid signature');
      return;
    }
    await payments.handle(event); // if it throws, Express answers 500, and Stripe repeats the event
    response.sendStatus(200);
  });

  app.use(express.urlencoded());

  app.get('/', async (_request, response) => {
    const { balance } = await router.credits.balance(account);
    response.type('html').send(page(balance));
  });

  app.post('/buy', async (request, response) => {
    const { dollars, auto } = request.body ?? {};
    if (!/^[1-9]\d{0,2}$/.test(String(dollars))) {
      response.status(400).send('dollars must be a whole number from 1 to 999');
      return;
    }
    response.redirect(303, await payments.buy(account, Number(dollars) * 100, auto === 'on', home(request)));
  });

  app.post('/subscribe', async (request, response) => {
    response.redirect(303, await payments.subscribe(account, String(request.body?.plan), home(request)));
  });

  return app;
}

function home(request: express.Request): string {
  return `${request.protocol}://${request.get('host')}/`;
}

function page(balance: string): string {
  return `<!doctype html><title>Credits</title>
<h1>$${balance} of credits</h1>
<form method="post" action="/buy">
  Buy $<input name="dollars" value="10" size="4"> of credits
  <label><input type="checkbox" name="auto"> and again when less than $2.00 are left</label> <button>Pay</button>
</form>
<form method="post" action="/subscribe">
  <button name="plan" value="starter">$5.00 a month</button> <button name="plan" value="pro">$20.00 a month</button>
</form>`;
}
