import { randomUUID } from 'node:crypto';

import { Turns } from '../async/turns.ts';
import type { ProviderCosts, Spent } from '../billing/provider-costs.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Provider } from '../catalog/provider.ts';
import { formatUsd } from '../ledger/contract/money.ts';
import type { RoutingStore } from '../ledger/contract/routing.ts';
import { asError } from '../platform/as-error.ts';
import type { CircuitBreakers } from '../upstream/circuit-breaker.ts';
import type { PlacedEjection } from '../upstream/ejections-by-hand.ts';
import {
  current,
  entryCount,
  MAX_ENTRIES,
  NO_CHANGES,
  readDocument,
  type RoutingDocument,
  writeDocument,
} from './routing-document.ts';

export interface RoutingChangesOptions {
  readonly store: RoutingStore;
  readonly breakers: CircuitBreakers;
  readonly costs: ProviderCosts;
  readonly catalog: () => Catalog;
  readonly onError: (error: Error) => void;
}

/** How often a process reads what others have changed. */
const READ_MS = 500;
/** How often it tells the store what providers have cost, unless one has reached its `stopAt`. */
const TELL_MS = 1000;
/** How often a change is made again that another process was faster than. */
const MAX_TRIES = 20;

/**
 * What operators change of the routing by hand, and providers that have cost what they may, in all processes of a store: read twice a
 * second, and applied to the circuit breakers. No request waits for it. While the store is unavailable, what is known stays.
 */
export class RoutingChanges {
  readonly #options: RoutingChangesOptions;
  /** What is read is applied in the order in which it was read. */
  readonly #turns = new Turns();
  #version = '';
  #document = NO_CHANGES;
  /** Readmissions that were acted on. */
  #readmitted: ReadonlySet<string> = new Set();
  /** Providers that are stopped, since when, and until when. */
  #stops: ReadonlyMap<string, PlacedEjection> = new Map();
  #timer: NodeJS.Timeout | undefined;
  #started: Promise<void> | undefined;
  #toldAt = -Infinity;
  #isFailing = false;
  /** The store is to be told at once. */
  #isUrgent = false;
  #isClosed = false;

  constructor(options: RoutingChangesOptions) {
    this.#options = options;
  }

  /** Which processes a change reaches. */
  get reach(): 'all_processes' | 'this_process' {
    return this.#options.store.isLocal === true ? 'this_process' : 'all_processes';
  }

  /** Begins to read. Resolves after the first time, whether or not the store answered. Doesn't keep the process alive. */
  start(): Promise<void> {
    return (this.#started ??= this.#run());
  }

  /** A provider has reached its `stopAt` by requests of this process: it is ejected at once, and the store told. */
  reached(): void {
    this.#toldAt = -Infinity;
    this.#isUrgent = true;
    this.#applyStops();
    if (this.#timer) this.#schedule(0);
  }

  /** The catalog was replaced. */
  reloaded(): void {
    this.#applyStops();
  }

  /** Whether a provider that has cost what it may goes on until the end of the period. */
  isResumed(provider: string, now: number): boolean {
    return this.#document.resumed.some((each) => each.provider === provider && each.until.getTime() > now);
  }

  /**
   * Changes the document, and applies it here; other processes read it within a second.
   *
   * @throws {StoreUnavailableError} if it may not have been changed; {TypeError} if it has as many entries as it may
   */
  change(edit: (document: RoutingDocument) => RoutingDocument): Promise<void> {
    return this.#turns.take('', async () => {
      const { store } = this.#options;
      for (let tries = 0; tries < MAX_TRIES; tries++) {
        await this.#read();
        const next = edit(current(this.#document, Date.now()));
        if (entryCount(next) > MAX_ENTRIES) {
          throw new TypeError(`changes must be at most ${MAX_ENTRIES} ejections and weights, got one more`);
        }
        const to = randomUUID();
        if (await store.write({ from: this.#version, to, document: writeDocument(next) })) {
          this.#apply(to, next);
          return;
        }
      }
      throw new Error(`The routing was changed by others ${MAX_TRIES} times meanwhile: try again`);
    });
  }

  /** Tells the store what is left to tell, and stops. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#turns.take('', async () => {
      if (!this.#started) return;
      // One batch may have been sent before, without an answer.
      await this.#tell();
      await this.#tell();
    });
  }

  async #run(): Promise<void> {
    await this.#turns.take('', async () => {
      this.#isUrgent = false;
      const isDue = performance.now() - this.#toldAt >= TELL_MS;
      const [untold, unread] = [isDue && (await failureOf(this.#tell())), await failureOf(this.#read())];
      const failure = unread || untold;
      if (failure && !this.#isFailing) this.#report(failure);
      this.#isFailing = failure !== false;
      this.#options.breakers.byHand.expire(Date.now());
      this.#applyStops();
    });
    this.#schedule(this.#isUrgent ? 0 : READ_MS);
  }

  #report(cause: Error): void {
    const message = `Changes of the routing by hand can't be read; those that are known stay: ${cause.message}`;
    this.#options.onError(new Error(message, { cause }));
  }

  #schedule(ms: number): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => void this.#run(), ms).unref();
  }

  async #tell(): Promise<void> {
    const { costs, store } = this.#options;
    const { batch } = costs;
    if (!batch) return;
    await store.addCosts(batch);
    costs.acknowledge(batch);
    this.#toldAt = performance.now();
  }

  async #read(): Promise<void> {
    const { version, document, costs } = await this.#options.store.read(this.#version);
    this.#options.costs.learn(costs);
    if (version === this.#version) return;
    this.#apply(version, document === undefined ? NO_CHANGES : readDocument(document));
  }

  #apply(version: string, document: RoutingDocument): void {
    const { breakers, catalog } = this.#options;
    const now = Date.now();
    this.#version = version;
    this.#document = current(document, now);
    breakers.weights.replace(this.#document.weights);
    const { readmissions } = this.#document;
    for (const { id, provider, model } of readmissions) {
      if (this.#readmitted.has(id)) continue;
      for (const target of catalog().targets) {
        if (target.provider.name !== provider || (model !== undefined && target.healthKey !== model))
          continue;
        breakers.find(target)?.readmit(now);
      }
    }
    this.#readmitted = new Set(readmissions.map(({ id }) => id));
    this.#stops = this.#stopsNow();
    this.#eject();
  }

  /** Ejects providers that have reached their `stopAt`, and readmits those that haven't. */
  #applyStops(): void {
    const stops = this.#stopsNow();
    const isSame =
      stops.size === this.#stops.size && [...stops].every(([name, stop]) => this.#stops.get(name) === stop);
    if (isSame) return;
    this.#stops = stops;
    this.#eject();
  }

  #eject(): void {
    this.#options.breakers.byHand.replace([
      ...current(this.#document, Date.now()).ejections,
      ...this.#stops.values(),
    ]);
  }

  #stopsNow(): Map<string, PlacedEjection> {
    const { catalog, costs } = this.#options;
    const stops = new Map<string, PlacedEjection>();
    for (const provider of catalog().providers.values()) {
      const spent = costs.of(provider);
      if (!spent || spent.spent < spent.stopAt.amount || this.isResumed(provider.name, Date.now())) continue;
      const stop = stopOf(provider, spent);
      const before = this.#stops.get(provider.name);
      stops.set(provider.name, before && isSameStop(before, stop) ? before : stop);
    }
    return stops;
  }
}

async function failureOf(step: Promise<void>): Promise<Error | false> {
  try {
    await step;
    return false;
  } catch (error) {
    return asError(error);
  }
}

function stopOf({ name }: Provider, { stopAt, until }: Spent): PlacedEjection {
  const { per } = stopAt;
  const amount = formatUsd(stopAt.amount);
  const reason = `It has cost what stopAt allows: ${amount} USD per ${per}.`;
  return {
    provider: name,
    ejection: { at: new Date(), reason, until: new Date(until), stopAt: { amount, per } },
  };
}

function isSameStop({ ejection: one }: PlacedEjection, { ejection: other }: PlacedEjection): boolean {
  return one.reason === other.reason && one.until?.getTime() === other.until?.getTime();
}
