/** When to tell the operator that an account's credits run low, or to top it up. */
export interface ThresholdOptions {
  /**
   * Amounts in USD, `['5.00', '1.00']`: `onThreshold` and the ledger event `balance_below` report a charge after which an
   * account has that much or less, and had more before. Held credits count as the account's. Once per crossing, by one of
   * all processes. A function says them of each account.
   *
   * @default none
   */
  readonly balanceBelow?: ThresholdsOfAccount;
  /**
   * Shares of a budget, `['0.8', '1']`, with at most four decimal places: `onThreshold` and the ledger event `budget_at`
   * report a charge that takes what was spent of a budget to that share of it or beyond. That holds for each budget of keys,
   * accounts and end users. Once per crossing and period, by one of all processes. A function says them of each account.
   *
   * @default none
   */
  readonly budgetAt?: ThresholdsOfAccount;
  /** Tops accounts up by itself. @default none */
  readonly topUp?: TopUpOptions;
}

/**
 * At most 16 thresholds: the same for all accounts, or of each. The function is called for each charge, so it must be fast;
 * what it throws, and what is wrong with what it returns, goes to `onError`.
 */
export type ThresholdsOfAccount = readonly string[] | ((account: string) => readonly string[] | undefined);

export interface TopUpOptions {
  /** In USD: an account with that much or less is topped up, after a charge or when a request is refused with a 402. */
  readonly below: string;
  /**
   * Charges a saved card, for example, and grants credits. Called by one of all processes at a time for an account, not for
   * a frozen one. What it throws goes to `onError`.
   */
  readonly run: (topUp: TopUp) => unknown;
  /**
   * How long after the beginning of a call the next may begin, in ms, if the account still has no more than `below`: it
   * failed, its payment is on its way, it has not ended, or its process died.
   *
   * @default 600000 (10 minutes)
   */
  readonly retryMs?: number;
}

/** An account that needs credits. */
export interface TopUp {
  readonly account: string;
  /**
   * The same until a call has raised the balance above `below`, also in another process: an idempotency key for the payment
   * and for the grant.
   */
  readonly id: string;
  /** What the account has, in USD, with what is held. */
  readonly unspent: string;
}
