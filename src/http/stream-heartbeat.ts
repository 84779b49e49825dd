/** A comment, as DeepSeek sends it: every client skips it, even one that splits a stream at blank lines. */
const COMMENT = Buffer.from(': keep-alive\n\n');
const BOM = Buffer.of(0xef, 0xbb, 0xbf);

/** Sends comments during the silence of an event stream, so that no proxy closes the connection as idle. */
export class StreamHeartbeat {
  readonly #timer: NodeJS.Timeout;
  #paused = false;
  #hasSent = false;

  /**
   * @param send - sends a comment to the client; called after `everyMs` without a byte
   * @param canSend - whether a comment is allowed at the current position of the stream
   */
  constructor(everyMs: number, send: (comment: Buffer) => void, canSend: () => boolean) {
    this.#timer = setInterval(() => {
      if (this.#paused || !canSend()) return;
      this.#hasSent = true;
      send(COMMENT);
    }, everyMs);
  }

  /** The first bytes of the answer, which no longer stand at the start of the stream: without a byte order mark there. */
  followedBy(first: Buffer): Buffer {
    return this.#hasSent && first.indexOf(BOM) === 0 ? first.subarray(BOM.length) : first;
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
