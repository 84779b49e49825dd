import type { KeyLimits } from '../ledger/contract/key-records.ts';
import type { Markup } from '../metering/markup.ts';
import type { ModelPatterns } from '../options/model-patterns.ts';
import type { ByokKeys } from './byok.ts';

/** The authenticated client of a request. */
export interface Caller {
  readonly account: string;
  /** The key's id, or the label that your `authenticate` gave it. */
  readonly key: string;
  /** The key was authenticated by your app and is not in the ledger. */
  readonly externalKey: boolean;
  /** For keys in the ledger: the version of the key record, for optimistic locking. */
  readonly keyVersion?: number;
  /** Store time, in ms, at which the secret or the key expires and must be looked up again. */
  readonly until?: number;
  readonly limits?: KeyLimits;
  /** The only models that it may use; undefined for all. */
  readonly models?: ModelPatterns;
  /** Added to the prices of its requests. */
  readonly markup?: Markup;
  /** Its own provider keys (BYOK). */
  readonly upstreamKeys?: ByokKeys;
}
