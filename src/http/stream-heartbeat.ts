/** A comment, as DeepSeek sends it: every client skips it, even one that splits a stream at blank lines. */
const COMMENT = Buffer.from(': keep-alive\n\n');

/** Sends comments during the silence of an event stream, so that no proxy closes the connection as idle. */
export class StreamHeartbeat {
  readonly #timer: NodeJS.Timeout;
  #paused = false;

  /**
   * @param send - sends a comment to the client; called after `everyMs` without a byte
   * @param canSend - whether a comment is allowed at the current position of the stream
   */
  constructor(everyMs: number, send: (comment: Buffer) => void, canSend: () => boolean) {
    this.#timer = setInterval(() => {
      if (!this.#paused && canSend()) send(COMMENT);
    }, everyMs);
  }

  /** Bytes were sent to the client. */
  touch(): void {
    this.#paused = false;
    this.#timer.refresh();
  }

  /** The client doesn't read. */
  pause(): void {
    this.#paused = true;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
