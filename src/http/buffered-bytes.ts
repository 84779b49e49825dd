import { RequestBuffersFullError } from '../errors/errors.ts';

/** A key may hold one part of so many. */
const SHARES = 4;

export interface BufferLimits {
  readonly maxBodyBytes: number;
  readonly maxBufferedBytes: number;
}

/**
 * What the bodies of requests that aren't admitted yet hold altogether, and those of each key: a quarter at most, but never
 * less than one body may have.
 */
export class BufferedBytes {
  readonly #most: number;
  readonly #mostOfKey: number;
  readonly #holders = new Map<string, Holder>();
  #held = 0;

  constructor({ maxBodyBytes, maxBufferedBytes }: BufferLimits) {
    this.#most = maxBufferedBytes;
    this.#mostOfKey = Math.max(maxBodyBytes, Math.floor(maxBufferedBytes / SHARES));
  }

  /** In bytes. */
  get held(): number {
    return this.#held;
  }

  /** For a body that begins to arrive; what it holds has to be given back. */
  bodyOf(account: string, key: string): BodyBuffer {
    const name = `${account} ${key}`;
    const holder = this.#holders.get(name) ?? { bodies: 0, held: 0 };
    this.#holders.set(name, holder);
    holder.bodies += 1;
    let bytes = 0;
    return {
      hold: (more) => {
        if (holder.held + more > this.#mostOfKey) throw new RequestBuffersFullError('key', this.#mostOfKey);
        if (this.#held + more > this.#most) throw new RequestBuffersFullError('server', this.#most);
        bytes += more;
        holder.held += more;
        this.#held += more;
      },
      giveBack: () => {
        holder.held -= bytes;
        this.#held -= bytes;
        bytes = 0;
        holder.bodies -= 1;
        if (holder.bodies === 0) this.#holders.delete(name);
      },
    };
  }
}

/** What one body holds while it arrives, and until the ledger has admitted its request. */
export interface BodyBuffer {
  /** @throws {RequestBuffersFullError} where that is too much; nothing more is held then */
  hold(more: number): void;
  /** Its request was admitted, or was given up. Called once. */
  giveBack(): void;
}

/** Those of one key. */
interface Holder {
  bodies: number;
  held: number;
}
