/** A comment, as DeepSeek sends it: every client skips it, also one that splits a stream at its blank lines. */
const COMMENT = Buffer.from(': keep-alive\n\n');

/** Breaks the silence of an event stream, so that nothing on its way to the client closes it as idle. */
export class StreamHeartbeat {
  readonly #timer: NodeJS.Timeout;
  #paused = false;

  /**
   * @param send - gives the client a comment; called only after `everyMs` without a byte
   * @param canSend - whether the stream stands where a comment may
   */
  constructor(everyMs: number, send: (comment: Buffer) => void, canSend: () => boolean) {
    this.#timer = setInterval(() => {
      if (!this.#paused && canSend()) send(COMMENT);
    }, everyMs);
  }

  /** Bytes went to the client. */
  touch(): void {
    this.#paused = false;
    this.#timer.refresh();
  }

  /** The client doesn't read what it has. */
  pause(): void {
    this.#paused = true;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
