import { type ChatCompletionsRouter, CreditsConflictError, type TopUp } from 'chat-completions-router';
import type { Stripe } from 'stripe';

/** What a subscription grants each month, in USD, by the lookup key of its price in Stripe. */
const PLANS: Readonly<Record<string, string>> = { starter: '5.00', pro: '20.00' };

/** In the metadata of payments that buy credits: an account can also pay for a subscription, or for what else you sell. */
const CREDITS = { buys: 'credits' };

/**
 * Stripe's payments as credits.
 *
 * Events come twice, late, and in any order. So a payment, a refund and a subscription are read from Stripe's API as they
 * are now, and each change has an id of Stripe's: a grant that of its payment, an adjustment that of its refund or
 * dispute, an allowance that of its subscription. The ledger makes each once.
 */
export class Payments {
  readonly #router: ChatCompletionsRouter;
  readonly #stripe: Stripe;
  /** Subscriptions are read and applied one after the other, so that what was read last is applied last. */
  #subscriptions: Promise<void> = Promise.resolve();

  constructor(router: ChatCompletionsRouter, stripe: Stripe) {
    this.#router = router;
    this.#stripe = stripe;
  }

  /**
   * The URL of Stripe's page where an account buys credits. With `autoTopUp`, once that is paid, this much is bought
   * again when few are left; without it, no longer.
   */
  async buy(account: string, cents: number, autoTopUp: boolean, returnTo: string): Promise<string> {
    const customer = await this.#customerOf(account);
    const session = await this.#stripe.checkout.sessions.create({
      mode: 'payment',
      customer,
      line_items: [
        {
          quantity: 1,
          price_data: {
            currency: 'usd',
            unit_amount: cents,
            product_data: { name: `$${dollars(cents)} of credits` },
          },
        },
      ],
      payment_intent_data: {
        metadata: { ...CREDITS, auto_top_up: autoTopUp ? String(cents) : 'off' },
        ...(autoTopUp && { setup_future_usage: 'off_session' }),
      },
      success_url: returnTo, // grants nothing: anyone can open it
      cancel_url: returnTo,
    });
    return urlOf(session);
  }

  /** The URL of Stripe's page where an account subscribes to a plan. */
  async subscribe(account: string, plan: string, returnTo: string): Promise<string> {
    const { data } = await this.#stripe.prices.list({ lookup_keys: [plan], active: true, limit: 1 });
    const [price] = data;
    if (!price) throw new Error(`Stripe has no price with the lookup key ${plan}`);
    const session = await this.#stripe.checkout.sessions.create({
      mode: 'subscription',
      customer: await this.#customerOf(account),
      line_items: [{ price: price.id, quantity: 1 }],
      success_url: returnTo,
      cancel_url: returnTo,
    });
    return urlOf(session);
  }

  /** For `thresholds.topUp` of the router: charges the saved card of an account that asked for it. */
  async topUp({ account, id }: TopUp): Promise<void> {
    const { stripe_customer: customer, auto_top_up: cents } = await this.#notesOf(account);
    if (customer === undefined || cents === undefined || cents === 'off') return;
    const { data } = await this.#stripe.customers.listPaymentMethods(customer, { type: 'card', limit: 1 });
    const [card] = data;
    if (!card) return;
    const intent = await this.#stripe.paymentIntents.create(
      {
        amount: Number(cents),
        currency: 'usd',
        customer,
        payment_method: card.id,
        off_session: true,
        confirm: true, // throws if the card is declined
        metadata: CREDITS,
      },
      // One payment until the balance was raised, also after a crash; a new card may be tried at once.
      { idempotencyKey: `${account} ${id} ${card.id}` },
    );
    await this.#grant(intent);
  }

  /** Applies an event that Stripe signed. If this throws, answer 5xx: Stripe sends the event again, for days. */
  async handle(event: Stripe.Event): Promise<void> {
    switch (event.type) {
      case 'checkout.session.completed': // paid by card
      case 'checkout.session.async_payment_succeeded': // paid by a method that takes days
        return this.#grant(event.data.object.payment_intent);
      case 'payment_intent.succeeded': // a top-up, too
        return this.#grant(event.data.object.id);
      case 'charge.refunded':
        return this.#refunded(event.data.object);
      case 'charge.dispute.created':
      case 'charge.dispute.funds_withdrawn':
      case 'charge.dispute.closed':
        return this.#disputed(event.data.object);
      case 'invoice.paid':
      case 'customer.subscription.updated':
      case 'customer.subscription.deleted':
        return this.#subscriptionsChanged(event.data.object.customer);
      default:
    }
  }

  /** Grants what a payment paid for, once, whichever of its events comes first. */
  async #grant(payment: string | Stripe.PaymentIntent | null): Promise<void> {
    if (payment === null) return; // of a subscription: its invoice says when it was paid
    const intent =
      typeof payment === 'string' ? await this.#stripe.paymentIntents.retrieve(payment) : payment;
    if (intent.status !== 'succeeded' || intent.metadata['buys'] !== CREDITS.buys) return;
    const account = await this.#accountOf(intent.customer);
    if (account === undefined) return;
    await this.#noteAutoTopUp(account, intent);
    const { durable } = await this.#router.credits.grant(account, dollars(intent.amount_received), {
      id: intent.id,
    });
    requireDurable(durable, intent.id);
  }

  /** What the newest of the payments asked for: an event of an older one may come again. */
  async #noteAutoTopUp(account: string, { metadata, created }: Stripe.PaymentIntent): Promise<void> {
    const { auto_top_up: wanted } = metadata;
    if (wanted === undefined) return; // a top-up itself
    const { auto_top_up_since: since = '0' } = await this.#notesOf(account);
    if (created < Number(since)) return;
    await this.#note(account, { auto_top_up: wanted, auto_top_up_since: String(created) });
  }

  /** Takes back each refund of a charge. Money that goes back is credits that go back, whatever it had bought. */
  async #refunded(charge: Stripe.Charge): Promise<void> {
    const account = await this.#accountOf(charge.customer);
    if (account === undefined) return;
    await this.#grant(charge.payment_intent); // if the refund is told before the payment
    for await (const { id, amount, status } of this.#stripe.refunds.list({ charge: charge.id })) {
      if (status === 'failed' || status === 'canceled') continue;
      await this.#takeBack(account, usd(amount, charge), id, 'refund', false);
    }
  }

  /** Takes back what a customer disputes, and freezes the account; gives it back when the dispute was won. */
  async #disputed(dispute: Stripe.Dispute): Promise<void> {
    const isInquiry = dispute.status.startsWith('warning_'); // no money was withdrawn yet
    const [intentId, id] = [dispute.payment_intent, dispute.id];
    if (isInquiry || intentId === null) return;
    const intent = await this.#stripe.paymentIntents.retrieve(
      typeof intentId === 'string' ? intentId : intentId.id,
    );
    const account = await this.#accountOf(intent.customer);
    if (account === undefined) return;
    await this.#grant(intent);
    await this.#takeBack(account, usd(dispute.amount, dispute), id, 'dispute', true);
    if (dispute.status !== 'won') return;
    // The account stays frozen until you decide.
    const won = { id: `${id}:won`, reason: 'dispute won' };
    const { durable } = await this.#router.credits.adjust(account, usd(dispute.amount, dispute), won);
    requireDurable(durable, won.id);
  }

  /** @param force - freeze the account; else this happens only if the account has spent what is taken */
  async #takeBack(
    account: string,
    amount: string,
    id: string,
    reason: string,
    force: boolean,
  ): Promise<void> {
    try {
      const options = { id, reason, force };
      const { durable } = await this.#router.credits.adjust(account, `-${amount}`, options);
      requireDurable(durable, id);
    } catch (error) {
      if (force || !(error instanceof CreditsConflictError) || error.code !== 'below_floor') throw error;
      await this.#takeBack(account, amount, id, reason, true);
    }
  }

  #subscriptionsChanged(customer: Customer | null): Promise<void> {
    const applied = this.#subscriptions.then(() => this.#applySubscriptions(customer));
    this.#subscriptions = applied.catch(() => {}); // the event's own answer tells the error
    return applied;
  }

  async #applySubscriptions(customer: Customer | null): Promise<void> {
    if (customer === null) return;
    const account = await this.#accountOf(customer);
    if (account === undefined) return;
    const all = this.#stripe.subscriptions.list({
      customer: idOf(customer),
      status: 'all',
      expand: ['data.latest_invoice'],
    });
    for await (const subscription of all) await this.#applySubscription(account, subscription);
  }

  /** An allowance for each subscription, until the end of what was paid: no period begins before its invoice is paid. */
  async #applySubscription(account: string, subscription: Stripe.Subscription): Promise<void> {
    const { id, status, items, latest_invoice: invoice, billing_cycle_anchor: anchor } = subscription;
    const [item] = items.data;
    const amount = PLANS[item?.price.lookup_key ?? ''];
    if (!item || amount === undefined) return; // of something else that you sell
    const isPaid = typeof invoice === 'object' && invoice?.status === 'paid';
    if (isPaid && (status === 'active' || status === 'trialing')) {
      const paidUntil = item.current_period_end * 1000;
      if (paidUntil <= Date.now()) return; // the next invoice comes soon
      const { durable } = await this.#router.credits.allow(account, {
        id,
        amount,
        per: 'month',
        anchor: anchor * 1000,
        until: paidUntil,
        rollover: 'once', // bridges the hour until Stripe collects a renewal
        change: 'prorate', // another plan counts at once, for the rest of the month
      });
      requireDurable(durable, id);
    } else if (status === 'canceled' || status === 'unpaid') {
      const allowances = await this.#router.credits.allowances(account);
      if (!allowances.some((each) => each.id === id)) return;
      const { durable } = await this.#router.credits.endAllowance(account, id); // at the end of what was paid
      requireDurable(durable, id);
    }
  }

  /** The customer in Stripe of an account: created with its first payment. */
  async #customerOf(account: string): Promise<string> {
    const known = (await this.#notesOf(account))['stripe_customer'];
    if (known !== undefined) return known;
    const { id } = await this.#stripe.customers.create(
      { metadata: { account } },
      { idempotencyKey: `customer ${account}` }, // two pages at once: one customer
    );
    await this.#note(account, { stripe_customer: id });
    return id;
  }

  async #accountOf(customer: Customer | null): Promise<string | undefined> {
    if (customer === null) return undefined;
    const found = await this.#stripe.customers.retrieve(idOf(customer));
    return found.deleted ? undefined : found.metadata['account'];
  }

  async #notesOf(account: string): Promise<Readonly<Record<string, string>>> {
    return (await this.#router.accounts.get(account))?.policy.metadata ?? {};
  }

  async #note(account: string, notes: Readonly<Record<string, string>>): Promise<void> {
    const metadata = { ...(await this.#notesOf(account)), ...notes };
    const updated = await this.#router.accounts.update(account, { metadata });
    if (!updated) throw new Error(`there is no account ${account}`);
  }
}

type Customer = string | Stripe.Customer | Stripe.DeletedCustomer;

function idOf(object: string | { readonly id: string }): string {
  return typeof object === 'string' ? object : object.id;
}

function urlOf({ id, url }: Stripe.Checkout.Session): string {
  if (url === null) throw new Error(`Stripe's session ${id} has no page`);
  return url;
}

/** The next delivery of the event repeats the change, which is made once, and waits for it again. */
function requireDurable(durable: boolean | undefined, id: string): void {
  if (durable === false) throw new Error(`${id} is not on disk, or on enough replicas, yet`);
}

/** What was paid in another currency is for you to decide. */
function usd(cents: number, { id, currency }: { readonly id: string; readonly currency: string }): string {
  if (currency !== 'usd') throw new Error(`${id} is in ${currency}, and credits are in usd`);
  return dollars(cents);
}

/** 1050 → '10.50', without a floating-point number on the way. */
function dollars(cents: number): string {
  return `${Math.trunc(cents / 100)}.${String(cents % 100).padStart(2, '0')}`;
}
