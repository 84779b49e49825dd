/** A row of `GET usage`: the members that it is grouped by, and sums. */
export interface UsageRow {
  readonly day?: string;
  readonly account?: string;
  readonly key?: string;
  readonly model?: string;
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

export interface AccountRow {
  readonly id: string;
  readonly balance: string;
  readonly held: string;
  readonly granted: string;
  readonly frozen: boolean;
}

export interface TargetRow {
  readonly provider: string;
  readonly model: string;
  readonly state: 'healthy' | 'ejected' | 'probing';
  readonly failures_in_a_row: number;
  readonly retry_at?: string;
  readonly first_byte_ms?: number;
  readonly running: number;
}

export interface LiveRow {
  readonly account: string;
  readonly key: string;
  readonly started_at: string;
  /** Unknown until the request's body has arrived. */
  readonly model?: string;
  readonly streaming?: boolean;
  readonly provider?: string;
}

export interface List<Row> {
  readonly data: readonly Row[];
  readonly next_cursor?: string | null;
}
