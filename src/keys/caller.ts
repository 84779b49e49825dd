import type { KeyLimits } from '../ledger/contract/key-records.ts';
import type { Markup } from '../metering/markup.ts';
import type { ModelPatterns } from '../options/model-patterns.ts';
import type { ByokKeys } from './byok.ts';

/** Whose request this is. */
export interface Caller {
  readonly account: string;
  /** The key's id, or the host's label for it. */
  readonly key: string;
  /** The host knows this key, the ledger doesn't. */
  readonly externalKey: boolean;
  /** Of a key of ours: the version that all of this is from, for the ledger to judge. */
  readonly keyVersion?: number;
  /** Store time from which it must be looked up again: its secret, or the key, ends then. */
  readonly until?: number;
  readonly limits?: KeyLimits;
  /** The only models that it may use. */
  readonly models?: ModelPatterns;
  /** Added to the prices that it pays. */
  readonly markup?: Markup;
  /** Its own keys for providers, as the host told them. */
  readonly upstreamKeys?: ByokKeys;
}
