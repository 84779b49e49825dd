import type { NanoDollars } from './money.ts';

/**
 * What operators change of the routing by hand, and what providers have cost, for all processes that share the store. It is not
 * the books: it may be lost with the store's last second.
 *
 * Each process reads it twice a second. `describeLedgerStore` of `chat-completions-router/testing/contracts` tests it where a store has it.
 */
export interface RoutingStore {
  /** Only this process has it, until it ends. */
  readonly isLocal?: true;
  /** @param known - the version that the caller has: its document is left out of the result */
  read(known?: string): Promise<RoutingState>;
  /** Replaces the document, if its version is still `from`; returns whether it was. A change that is repeated was. */
  write(change: RoutingChange): Promise<boolean>;
  /** Adds to what providers have cost. A batch that is repeated adds nothing. */
  addCosts(batch: CostBatch): Promise<void>;
}

export interface RoutingState {
  /** Of the document; empty while there is none. */
  readonly version: string;
  /** Undefined if it is the known one, or there is none. */
  readonly document?: string;
  /** In no particular order. Those of a period that has ended are kept for a day. */
  readonly costs: readonly ProviderCost[];
}

export interface RoutingChange {
  /** The version that is replaced; empty for the first one. */
  readonly from: string;
  /** 1 to 64 letters, digits and dashes; never used before. */
  readonly to: string;
  /** At most 1 MiB. */
  readonly document: string;
}

/** What a provider has cost in a period. */
export interface ProviderCost {
  /** 1 to 256 characters. */
  readonly provider: string;
  /** Start of the period, in ms. */
  readonly from: number;
  /** Its end, in ms. */
  readonly until: number;
  /** More than 0. A sum stops at the greatest amount that there is. */
  readonly amount: NanoDollars;
}

export interface CostBatch {
  /** Who adds: 1 to 64 letters, digits and dashes, of one process. It is remembered for an hour after its last batch. */
  readonly writer: string;
  /** Rises by one with each batch of the writer: one whose number was added before is a repetition. */
  readonly number: number;
  /** At most 1,000. */
  readonly costs: readonly ProviderCost[];
}

export const MAX_ROUTING_DOCUMENT: number = 2 ** 20;
export const MAX_COSTS = 1000;

/** How long a store remembers the last batch of a writer. */
export const WRITER_MS = 3_600_000;
/** How long a store keeps what was spent in a period that has ended. */
export const ENDED_PERIOD_MS = 86_400_000;
