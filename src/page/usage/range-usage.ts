/** A row of `GET usage`: the members that it is grouped by, and sums. */
export interface UsageRow {
  readonly day?: string;
  readonly account?: string;
  readonly key?: string;
  readonly model?: string;
  readonly user?: string;
  readonly requests: number;
  readonly errors: number;
  readonly aborted: number;
  readonly prompt_tokens: number;
  readonly cached_tokens: number;
  readonly completion_tokens: number;
  readonly charged: string;
  /** Of requests with a known cost. */
  readonly cost?: string;
}

/** Usage of a range of days. */
export interface RangeUsage {
  /** In UTC, today the last one. */
  readonly days: readonly string[];
  /** By day and model. */
  readonly models: readonly UsageRow[];
  /** By account and key. */
  readonly keys: readonly UsageRow[];
  /** Charged in the same number of days before. */
  readonly chargedBefore: bigint;
  /** Account and key, as JSON → the key's name, where it has one. */
  readonly keyNames: ReadonlyMap<string, string>;
}
