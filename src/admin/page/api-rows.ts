export interface AccountRow {
  readonly id: string;
  readonly balance: string;
  /** What the balance may be below zero. */
  readonly credit_limit: string;
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
