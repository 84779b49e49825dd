/** Every reply says when it was, and the account's journal position. */
export interface At {
  /** The store's clock, in ms: callers learn its offset from theirs. */
  readonly now: number;
  readonly seq: bigint;
}

/** What an operator did can be told apart by how safe it is. */
export interface MaybeDurable {
  /**
   * Whether it is on a disk or on as many replicas as was asked for: repeat the command until it is.
   * Undefined where the store can't tell.
   */
  readonly durable?: boolean;
}
