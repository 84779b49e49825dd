import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** An object of Stripe's API, as far as the tests need it. */
export type StripeObject = { readonly id: string; readonly object: string } & Record<string, unknown>;

/** What a request of the package had: its form, with names as `metadata[account]`. */
export interface StripeCall {
  readonly method: string;
  readonly path: string;
  readonly form: Readonly<Record<string, string>>;
  readonly idempotencyKey: string | undefined;
}

type Create = (form: Readonly<Record<string, string>>, id: string) => StripeObject;

const MONTH_S = 30 * 86_400;

/**
 * Stands in for Stripe's API on loopback: it keeps objects, answers a repeated idempotency key with the first answer,
 * and does what a customer and a bank do when a test says so.
 */
export class StripeApi {
  readonly calls: StripeCall[] = [];
  readonly #server = createServer((request, response) => void this.#answer(request, response));
  readonly #objects = new Map<string, StripeObject>();
  readonly #answered = new Map<string, { readonly status: number; readonly body: object }>();
  #count = 0;
  /** How payments off session end: `card_declined` is an error of Stripe's. */
  offSession: 'succeeded' | 'processing' | 'card_declined' = 'succeeded';

  async listen(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** What the API says of an object. */
  get(id: string): StripeObject {
    const found = this.#objects.get(id);
    if (!found) throw new Error(`Stripe has no ${id}`);
    return found;
  }

  all(object: string): StripeObject[] {
    return [...this.#objects.values()].filter((each) => each.object === object);
  }

  /** Adds an object, or replaces members of the one with its id. */
  put(object: StripeObject): StripeObject {
    const whole = { ...this.#objects.get(object.id), ...object };
    this.#objects.set(object.id, whole);
    return whole;
  }

  /** The customer of a Checkout session pays, by card; the card is saved if the session asked for it. */
  pay(session: StripeObject): { readonly session: StripeObject; readonly intent: StripeObject } {
    const intent = this.get(String(session['payment_intent']));
    const paid = this.put({ ...intent, status: 'succeeded', amount_received: intent['amount'] });
    const { customer, setup_future_usage: saved } = paid;
    if (saved === 'off_session') {
      this.put({ id: `pm_${String(customer)}`, object: 'payment_method', type: 'card', customer });
    }
    return {
      session: this.put({ ...session, status: 'complete', payment_status: 'paid' }),
      intent: paid,
    };
  }

  /** The charge of a payment, after a refund of some cents. */
  refund(intent: StripeObject, cents: number): StripeObject {
    const charge = `ch_${intent.id}`;
    this.put({
      id: this.#id('re'),
      object: 'refund',
      charge,
      amount: cents,
      currency: 'usd',
      status: 'succeeded',
    });
    const { customer, amount } = intent;
    return this.put({
      id: charge,
      object: 'charge',
      customer,
      amount,
      currency: 'usd',
      payment_intent: intent.id,
    });
  }

  /** A subscription of a customer to a price, with an invoice that is not paid yet. */
  subscribe(customer: string, lookupKey: string, since: Date): StripeObject {
    const start = Math.floor(since.getTime() / 1000);
    const invoice = this.put({ id: this.#id('in'), object: 'invoice', customer, status: 'open' });
    return this.put({
      id: this.#id('sub'),
      object: 'subscription',
      customer,
      status: 'active',
      billing_cycle_anchor: start,
      latest_invoice: invoice.id,
      items: {
        object: 'list',
        data: [{ price: { lookup_key: lookupKey }, current_period_end: start + MONTH_S }],
      },
    });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const url = new URL(request.url ?? '', 'http://stripe');
    const sent = request.method === 'POST' ? Buffer.concat(chunks).toString() : url.search;
    const call = {
      method: request.method ?? '',
      path: url.pathname,
      form: Object.fromEntries(new URLSearchParams(sent)),
      idempotencyKey: request.headers['idempotency-key']?.toString(),
    };
    this.calls.push(call);
    const key = call.method === 'POST' ? call.idempotencyKey : undefined;
    const answer = this.#answered.get(key ?? '') ?? this.#respond(call);
    if (key !== undefined) this.#answered.set(key, answer);
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer.body));
  }

  #respond({ method, path, form }: StripeCall): { readonly status: number; readonly body: object } {
    const error = (status: number, body: object) => ({ status, body: { error: body } });
    const [, , collection = '', id, of] = path.split('/');
    if (method === 'POST') {
      if (form['confirm'] === 'true' && this.offSession === 'card_declined') {
        return error(402, {
          type: 'card_error',
          code: 'card_declined',
          message: 'Your card was declined.',
        });
      }
      const create = this.#creates[path.slice('/v1/'.length)];
      if (create) return { status: 200, body: this.put(create(form, this.#id(collection.slice(0, 2)))) };
    }
    if (method === 'GET' && id !== undefined && of === undefined && this.#objects.has(id)) {
      return { status: 200, body: this.get(id) };
    }
    const wanted = this.#lists[of ?? collection];
    if (method === 'GET' && wanted) {
      const data = [...this.#objects.values()].filter((each) => wanted(each, form, id)).toReversed();
      const body = {
        object: 'list',
        url: path,
        has_more: false,
        data: data.map((each) => this.#expanded(each)),
      };
      return { status: 200, body };
    }
    return error(404, { type: 'invalid_request_error', message: `No such thing: ${method} ${path}` });
  }

  readonly #creates: Readonly<Record<string, Create>> = {
    customers: (form, id) => ({
      id,
      object: 'customer',
      metadata: { account: form['metadata[account]'] },
    }),
    'checkout/sessions': (form, id) => {
      const amount = Number(form['line_items[0][price_data][unit_amount]']);
      const session = { id, object: 'checkout.session', mode: form['mode'], customer: form['customer'] };
      const url = `https://checkout.stripe.com/c/pay/${id}`;
      if (form['mode'] !== 'payment') return { ...session, url, payment_intent: null };
      const intent = this.put({
        id: this.#id('pi'),
        object: 'payment_intent',
        status: 'requires_payment_method',
        amount,
        amount_received: 0,
        currency: 'usd',
        customer: form['customer'],
        created: this.#count,
        metadata: {
          buys: form['payment_intent_data[metadata][buys]'],
          auto_top_up: form['payment_intent_data[metadata][auto_top_up]'],
        },
        setup_future_usage: form['payment_intent_data[setup_future_usage]'] ?? null,
      });
      return { ...session, url, payment_status: 'unpaid', payment_intent: intent.id };
    },
    payment_intents: (form, id) => ({
      id: id.replace('pa', 'pi'),
      object: 'payment_intent',
      status: this.offSession,
      amount: Number(form['amount']),
      amount_received: this.offSession === 'succeeded' ? Number(form['amount']) : 0,
      currency: form['currency'],
      customer: form['customer'],
      created: this.#count,
      metadata: { buys: form['metadata[buys]'] },
    }),
  };

  readonly #lists: Readonly<
    Record<string, (each: StripeObject, form: StripeCall['form'], id: string | undefined) => boolean>
  > = {
    prices: (each, form) => each.object === 'price' && each['lookup_key'] === form['lookup_keys[0]'],
    refunds: (each, form) => each.object === 'refund' && each['charge'] === form['charge'],
    subscriptions: (each, form) => each.object === 'subscription' && each['customer'] === form['customer'],
    payment_methods: (each, _form, id) => each.object === 'payment_method' && each['customer'] === id,
  };

  #expanded(each: StripeObject): StripeObject {
    if (each.object !== 'subscription') return each;
    return { ...each, latest_invoice: this.get(String(each['latest_invoice'])) };
  }

  #id(prefix: string): string {
    this.#count += 1;
    return `${prefix}_${this.#count}`;
  }
}
