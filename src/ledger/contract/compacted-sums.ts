import type { NanoDollars } from './money.ts';

/** Totals of the journal lines that `compact` removed. */
export interface CompactedSums {
  readonly seq: bigint;
  /** The latest time of these lines, in ms; 0 if there are none. */
  readonly at: number;
  readonly granted: NanoDollars;
  readonly spent: NanoDollars;
  readonly expired: NanoDollars;
  readonly writtenOff: NanoDollars;
}

/** What a store has of it. */
export interface CompactedReader {
  compacted?(account: string): Promise<CompactedSums | undefined>;
  snapshot(account: string): Promise<{ readonly compacted: CompactedSums } | undefined>;
}

/** Those of an account; a store without `compacted` reads the whole account. Undefined when there is no such account. */
export async function compactedSums(
  store: CompactedReader,
  account: string,
): Promise<CompactedSums | undefined> {
  if (store.compacted) return await store.compacted(account);
  return (await store.snapshot(account))?.compacted;
}
