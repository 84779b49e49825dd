import type { RecordedContent } from './hooks.ts';

/** What is kept of a body on its way: its beginning, in memory of its own, so that no buffer of a socket is kept with it. */
export class BodyCapture {
  readonly #maxBytes: number;
  #bytes = Buffer.alloc(0);
  #length = 0;
  #isTruncated = false;

  constructor(most: number) {
    this.#maxBytes = most;
  }

  add(bytes: Uint8Array): void {
    const fits = Math.min(bytes.length, this.#maxBytes - this.#length);
    if (fits < bytes.length) this.#isTruncated = true;
    if (fits === 0) return;
    this.#makeRoom(this.#length + fits);
    this.#bytes.set(bytes.subarray(0, fits), this.#length);
    this.#length += fits;
  }

  /** A copy, which whoever gets it may write to. */
  first(most: number): { readonly bytes: Buffer; readonly isTruncated: boolean } {
    const length = Math.min(this.#length, most);
    // Not from the pool: who keeps these few bytes would keep its 64 KiB.
    const bytes = Buffer.allocUnsafeSlow(length);
    bytes.set(this.#bytes.subarray(0, length));
    return {
      bytes,
      isTruncated: this.#isTruncated || this.#length > most,
    };
  }

  #makeRoom(length: number): void {
    if (length <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafeSlow(
      Math.min(this.#maxBytes, Math.max(length, this.#bytes.length * 2, MIN_CAPACITY)),
    );
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
  }
}

/** What most answers fit into. */
const MIN_CAPACITY = 4096;

/** What a completion was asked and what its client got, as far as any hook wants to have it. */
export class ContentRecorder {
  readonly request: BodyCapture;
  readonly response: BodyCapture;

  constructor(most: number) {
    this.request = new BodyCapture(most);
    this.response = new BodyCapture(most);
  }

  /** The event, of which at most so many bytes of each body are told. */
  toEvent(completion: RecordedCompletion, most: number): RecordedContent {
    const request = this.request.first(most);
    const response = this.response.first(most);
    return {
      ...completion,
      request: request.bytes,
      response: response.bytes,
      requestTruncated: request.isTruncated,
      responseTruncated: response.isTruncated,
    };
  }
}

/** Whose content it is. */
export type RecordedCompletion = Omit<
  RecordedContent,
  'request' | 'response' | 'requestTruncated' | 'responseTruncated'
>;
