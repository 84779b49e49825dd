import type { Nemesis } from './stage.ts';

/** A store with its servers, and what can happen to them. */
export interface World {
  /** What the gateway at each place is given. */
  readonly storeUrls: readonly string[];
  /** What the books are read from in the end. */
  readonly booksUrl: () => string | Promise<string>;
  /** Where charges wait, if it is for the world to say. */
  readonly outboxDir?: string;
  readonly nemeses: Readonly<Record<string, Nemesis>>;
  close(): Promise<void>;
}
