import { setTimeout as pause } from 'node:timers/promises';

import type { Random } from '../simulation/random.ts';
import { send, type Try } from './client.ts';
import type { GatewayPlace, GatewayRun } from './gateway-place.ts';
import { type Departure, drawPlan, type Payer, type Plan } from './plan.ts';

const MAX_RUNNING = 250;
const MAX_TRIES = 8;
const STAY: Departure = { kind: 'stay' };

export interface LoadOptions {
  readonly random: Random;
  readonly places: readonly GatewayPlace[];
  /** May change while it runs. */
  readonly payers: readonly Payer[];
  /** Told of each plan before it is sent for the first time. */
  readonly expect: (plan: Plan) => void;
  /** New plans a second. */
  readonly rate: number;
}

/** Clients that come at a steady rate, whatever becomes of those before them. */
export class Load {
  readonly tries: Try[] = [];
  /** By their own name. */
  readonly byId = new Map<string, Try>();
  readonly #options: LoadOptions;
  readonly #running = new Set<Promise<void>>();
  #plans = 0;

  constructor(options: LoadOptions) {
    this.#options = options;
  }

  /** A gateway has told by which id it knows a request. */
  named(requestId: string, id: string, run: GatewayRun): void {
    const tried = this.byId.get(id);
    if (tried && tried.run === run) tried.requestId ??= requestId;
  }

  /** Resolves when the last of them is over. */
  async run(signal: AbortSignal): Promise<void> {
    const { random, rate, expect } = this.#options;
    const startedAt = performance.now();
    for (let arrived = 0; !signal.aborted; arrived++) {
      const dueAt = startedAt + (arrived * 1000) / rate;
      const early = dueAt - performance.now();
      if (early > 0) await pause(early);
      const payer = this.#drawPayer();
      if (!payer || this.#running.size >= MAX_RUNNING) continue;
      const plan = drawPlan((this.#plans += 1), payer, random);
      expect(plan);
      const serving = this.#serve(plan, random.fork(), signal);
      this.#running.add(serving);
      void serving.finally(() => this.#running.delete(serving));
    }
    await Promise.all(this.#running);
  }

  #drawPayer(): Payer | undefined {
    const { payers, random } = this.#options;
    const sum = payers.reduce((shares, { share }) => shares + share, 0);
    let drawn = random.next() * sum;
    return payers.find(({ share }) => (drawn -= share) < 0);
  }

  /** Sends it once, or with an idempotency key until it has an answer, and now and then once too often. */
  async #serve(plan: Plan, random: Random, signal: AbortSignal): Promise<void> {
    const first = this.#begin(plan, random);
    if (plan.idempotencyKey === undefined) return this.#send(first, plan.departure);
    const sending = this.#send(first, plan.departure);
    const repeating = random.chance(0.5) ? this.#repeatWhileItRuns(first, random) : undefined;
    await sending;
    await repeating;
    let last = first;
    for (let tries = 1; tries < MAX_TRIES; tries++) {
      const isDone = (last.status === 200 && last.isWhole) || last.code === 'request_already_processed';
      if (isDone && !random.chance(0.4)) return;
      await pause(isDone ? random.skewed(50, 20_000) : random.skewed(50, 3000));
      if (signal.aborted) return;
      last = this.#begin(plan, random);
      await this.#send(last, STAY);
    }
  }

  async #repeatWhileItRuns(first: Try, random: Random): Promise<void> {
    for (;;) {
      await pause(random.skewed(50, 3000));
      if (first.endedAt !== undefined) return;
      await this.#send(this.#begin(first.plan, random), STAY);
    }
  }

  #begin(plan: Plan, random: Random): Try {
    const { places } = this.#options;
    const place = plan.payer.place ?? random.below(places.length);
    const count = (this.#triesOf.get(plan.n) ?? 0) + 1;
    this.#triesOf.set(plan.n, count);
    const tried: Try = {
      id: `${plan.n}.${count}`,
      plan,
      place,
      run: places[place]?.run,
      sentAt: Date.now(),
      status: 0,
      isWhole: false,
      hasLeft: false,
    };
    this.tries.push(tried);
    this.byId.set(tried.id, tried);
    return tried;
  }

  readonly #triesOf = new Map<number, number>();

  #send(tried: Try, departure: Departure): Promise<void> {
    const key = tried.plan.idempotencyKey;
    return send(tried, departure, key === undefined ? {} : { 'idempotency-key': key });
  }
}
