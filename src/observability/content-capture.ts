import type { RecordedContent } from './hooks.ts';

/** Copies the beginning of a body, so that no socket buffer is retained. */
export class BodyCapture {
  readonly #maxBytes: number;
  #bytes = Buffer.alloc(0);
  #length = 0;
  #isTruncated = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  add(bytes: Uint8Array): void {
    const fits = Math.min(bytes.length, this.#maxBytes - this.#length);
    if (fits < bytes.length) this.#isTruncated = true;
    if (fits === 0) return;
    this.#makeRoom(this.#length + fits);
    this.#bytes.set(bytes.subarray(0, fits), this.#length);
    this.#length += fits;
  }

  /** Returns a copy, which the caller may change. */
  first(maxBytes: number): { readonly bytes: Buffer; readonly isTruncated: boolean } {
    const length = Math.min(this.#length, maxBytes);
    // Not from the buffer pool: a few retained bytes would retain its 64 KiB.
    const bytes = Buffer.allocUnsafeSlow(length);
    bytes.set(this.#bytes.subarray(0, length));
    return {
      bytes,
      isTruncated: this.#isTruncated || this.#length > maxBytes,
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

/** Most answers fit into this. */
const MIN_CAPACITY = 4096;

/** Records the request and response bodies of a completion, up to the largest limit of any hook. */
export class ContentRecorder {
  readonly request: BodyCapture;
  readonly response: BodyCapture;

  constructor(maxBytes: number) {
    this.request = new BodyCapture(maxBytes);
    this.response = new BodyCapture(maxBytes);
  }

  /** Makes the event, with at most `maxBytes` of each body. */
  toEvent(completion: RecordedCompletion, maxBytes: number): RecordedContent {
    const request = this.request.first(maxBytes);
    const response = this.response.first(maxBytes);
    return {
      ...completion,
      request: request.bytes,
      response: response.bytes,
      requestTruncated: request.isTruncated,
      responseTruncated: response.isTruncated,
    };
  }
}

/** The completion that the content belongs to. */
export type RecordedCompletion = Omit<
  RecordedContent,
  'request' | 'response' | 'requestTruncated' | 'responseTruncated'
>;
