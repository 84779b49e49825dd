import { RequestBuffersFullError } from '../errors/request-errors.ts';

/** A key may hold one of this many equal shares. */
const SHARES = 4;

export interface BufferLimits {
  readonly maxBodyBytes: number;
  readonly maxBufferedBytes: number;
}

/**
 * Bounds the bytes buffered for requests that aren't admitted yet: in total, and for each key to a quarter of that, but
 * never to less than one body of the maximum size.
 */
export class BufferedBytes {
  readonly #maxBytes: number;
  readonly #maxBytesPerKey: number;
  readonly #keys = new Map<string, KeyBuffers>();
  #held = 0;

  constructor({ maxBodyBytes, maxBufferedBytes }: BufferLimits) {
    this.#maxBytes = maxBufferedBytes;
    this.#maxBytesPerKey = Math.max(maxBodyBytes, Math.floor(maxBufferedBytes / SHARES));
  }

  /** In bytes. */
  get held(): number {
    return this.#held;
  }

  /** Starts counting for a body that begins to arrive; the caller must call `release`. */
  reserveFor(account: string, key: string): BodyBuffer {
    const name = `${account} ${key}`;
    const holder = this.#keys.get(name) ?? { bodies: 0, held: 0 };
    this.#keys.set(name, holder);
    holder.bodies += 1;
    let bytes = 0;
    return {
      hold: (more) => {
        if (holder.held + more > this.#maxBytesPerKey)
          throw new RequestBuffersFullError('key', this.#maxBytesPerKey);
        if (this.#held + more > this.#maxBytes) throw new RequestBuffersFullError('server', this.#maxBytes);
        bytes += more;
        holder.held += more;
        this.#held += more;
      },
      release: () => {
        holder.held -= bytes;
        this.#held -= bytes;
        bytes = 0;
        holder.bodies -= 1;
        if (holder.bodies === 0) this.#keys.delete(name);
      },
    };
  }
}

/** Counts the bytes of one body while it arrives, and until the ledger has admitted its request. */
export interface BodyBuffer {
  /** @throws {RequestBuffersFullError} if a limit would be exceeded; then nothing is added */
  hold(more: number): void;
  /** The request was admitted or ended. Called once. */
  release(): void;
}

/** The buffered bodies of one key. */
interface KeyBuffers {
  bodies: number;
  held: number;
}
