/** Requests wait in line where all targets of their model are full. */
export interface WaitOptions {
  /**
   * How long a request waits at most, in ms.
   *
   * @default 5000
   */
  readonly upToMs?: number;
  /**
   * How many requests for the model wait at most, in this process. Where more come, accounts have equal parts.
   *
   * @default 200
   */
  readonly most?: number;
}
