/** Options of each call. */
export interface CallOptions {
  /** Ends the call: it rejects with the signal's reason. Without one, a call waits as long as `fetch` does. */
  readonly signal?: AbortSignal;
}

/** Options of a call that changes something. */
export interface ChangeOptions extends CallOptions {
  /**
   * Identifies the change, so that the same call can be sent again: it is made once. 1 to 255 printable ASCII characters
   * without spaces.
   *
   * A grant, an adjustment and a refund need it, or an `id`.
   */
  readonly idempotencyKey?: string;
}
