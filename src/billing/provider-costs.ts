import { randomUUID } from 'node:crypto';

import type { Provider, ProviderStop } from '../catalog/provider.ts';
import type { NanoDollars } from '../ledger/contract/money.ts';
import { type CostBatch, MAX_COSTS, type ProviderCost } from '../ledger/contract/routing.ts';
import { windowEnd, windowStart } from '../ledger/engine/key-limits.ts';

/** What a provider has cost in the running period of its `stopAt`. */
export interface Spent {
  readonly stopAt: ProviderStop;
  readonly spent: NanoDollars;
  /** End of the period, in ms. */
  readonly until: number;
}

/**
 * What providers with a `stopAt` cost, of all processes: what the store knows, and what this process has not told it yet. Each batch
 * counts once, also if it is repeated.
 */
export class ProviderCosts {
  readonly #now: () => number;
  readonly #onReached: () => void;
  readonly #writer = randomUUID();
  #number = 0;
  /** Of the store, by provider and period. */
  #known = new Map<string, NanoDollars>();
  readonly #untold = new Map<string, ProviderCost>();
  /** Sent to the store, which has not acknowledged it. */
  #batch: CostBatch | undefined;

  /** @param onReached - called when a request of this process makes a provider reach its `stopAt` */
  constructor(now: () => number, onReached: () => void) {
    this.#now = now;
    this.#onReached = onReached;
  }

  /** A request to the provider has cost so much. */
  add({ name, stopAt }: Provider, amount: NanoDollars): void {
    if (!stopAt || amount <= 0n) return;
    const now = this.#now();
    const [from, until] = [windowStart(stopAt.per, now), windowEnd(stopAt.per, now)];
    const key = keyOf(name, from, until);
    const before = this.#sumOf(key);
    const untold = this.#untold.get(key)?.amount ?? 0n;
    this.#untold.set(key, { provider: name, from, until, amount: untold + amount });
    if (before < stopAt.amount && before + amount >= stopAt.amount) this.#onReached();
  }

  /** Undefined without a `stopAt`. */
  of({ name, stopAt }: Provider): Spent | undefined {
    if (!stopAt) return undefined;
    const now = this.#now();
    const until = windowEnd(stopAt.per, now);
    return { stopAt, spent: this.#sumOf(keyOf(name, windowStart(stopAt.per, now), until)), until };
  }

  /** What the store has to be told next: the same until it is acknowledged. */
  get batch(): CostBatch | undefined {
    if (this.#batch || this.#untold.size === 0) return this.#batch;
    const taken = [...this.#untold].slice(0, MAX_COSTS);
    for (const [key] of taken) this.#untold.delete(key);
    this.#number += 1;
    this.#batch = { writer: this.#writer, number: this.#number, costs: taken.map(([, cost]) => cost) };
    return this.#batch;
  }

  /** The store has the batch. */
  acknowledge({ costs }: CostBatch): void {
    this.#batch = undefined;
    for (const { provider, from, until, amount } of costs) {
      const key = keyOf(provider, from, until);
      this.#known.set(key, (this.#known.get(key) ?? 0n) + amount);
    }
  }

  /** What the store has. */
  learn(costs: readonly ProviderCost[]): void {
    this.#known = new Map(
      costs.map(({ provider, from, until, amount }) => [keyOf(provider, from, until), amount]),
    );
  }

  #sumOf(key: string): NanoDollars {
    const sent = this.#batch?.costs.find(({ provider, from, until }) => keyOf(provider, from, until) === key);
    return (this.#known.get(key) ?? 0n) + (sent?.amount ?? 0n) + (this.#untold.get(key)?.amount ?? 0n);
  }
}

function keyOf(provider: string, from: number, until: number): string {
  return `${from} ${until} ${provider}`;
}
