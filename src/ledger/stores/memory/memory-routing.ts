import { MAX_AMOUNT, smaller } from '../../contract/money.ts';
import {
  type CostBatch,
  ENDED_PERIOD_MS,
  type ProviderCost,
  type RoutingChange,
  type RoutingState,
  type RoutingStore,
  WRITER_MS,
} from '../../contract/routing.ts';
import { checkCostBatch, checkRoutingChange } from '../../engine/validate-routing.ts';

/** What operators change of the routing, in this process's memory. */
export class MemoryRouting implements RoutingStore {
  readonly isLocal = true;
  readonly #now: () => number;
  #version = '';
  #document = '';
  readonly #costs = new Map<string, ProviderCost>();
  readonly #writers = new Map<string, { readonly number: number; readonly at: number }>();

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  async read(known = ''): Promise<RoutingState> {
    const [version, costs] = [this.#version, [...this.#costs.values()]];
    return version === known ? { version, costs } : { version, document: this.#document, costs };
  }

  async write({ from, to, document }: RoutingChange): Promise<boolean> {
    checkRoutingChange({ from, to, document });
    if (this.#version === to) return true;
    if (this.#version !== from) return false;
    this.#version = to;
    this.#document = document;
    return true;
  }

  async addCosts(batch: CostBatch): Promise<void> {
    checkCostBatch(batch);
    const { writer, number, costs } = batch;
    const now = this.#now();
    for (const [id, { at }] of this.#writers) if (at + WRITER_MS <= now) this.#writers.delete(id);
    for (const [id, { until }] of this.#costs) if (until + ENDED_PERIOD_MS <= now) this.#costs.delete(id);
    if ((this.#writers.get(writer)?.number ?? 0) >= number) return;
    this.#writers.set(writer, { number, at: now });
    for (const cost of costs) {
      const id = `${cost.from} ${cost.until} ${cost.provider}`;
      const sum = (this.#costs.get(id)?.amount ?? 0n) + cost.amount;
      this.#costs.set(id, { ...cost, amount: smaller(sum, MAX_AMOUNT) });
    }
  }
}
