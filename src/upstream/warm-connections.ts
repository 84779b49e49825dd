import type { Socket } from 'node:net';

import { backoff } from '../async/backoff.ts';

export interface WarmConnectionsOptions {
  readonly size: number;
  /** Opens a connection that doesn't keep the process alive. */
  readonly open: () => Promise<Socket>;
  /** Whether one more may be opened. */
  readonly hasRoom: () => boolean;
  /** One more can be taken. */
  readonly onReady: () => void;
}

/** A connection that breaks sooner than this is a failure. So a connection is reopened at most once in this time. */
const STEADY_MS = 1000;
const RETRY = { firstMs: 500, maxMs: 60_000 };

/** Unused connections, kept open for the requests that find no free one.
 *
 * Each that is taken or closed is replaced. While that fails, one at a time is tried, after a backoff.
 */
export class WarmConnections {
  readonly #options: WarmConnectionsOptions;
  readonly #ready: WarmConnection[] = [];
  #opening = 0;
  #failures = 0;
  #retry: NodeJS.Timeout | undefined;
  #isStarted = false;

  constructor(options: WarmConnectionsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#ready.length;
  }

  start(): void {
    this.#isStarted = true;
    this.fill();
  }

  /** Closes all. */
  stop(): void {
    this.#isStarted = false;
    clearTimeout(this.#retry);
    this.#retry = undefined;
    for (const { socket } of this.#ready) socket.destroy();
  }

  /** Hands over the newest connection, which is the least likely to be closed by the provider at this moment. */
  take(): Socket | undefined {
    for (;;) {
      const warm = this.#ready.pop();
      if (!warm) return undefined;
      warm.release();
      if (warm.socket.destroyed) continue;
      this.#failures = 0;
      this.fill();
      return warm.socket;
    }
  }

  /** Opens what is missing. */
  fill(): void {
    const { size, hasRoom } = this.#options;
    const atOnce = this.#failures === 0 ? size : 1;
    while (
      this.#isStarted &&
      this.#retry === undefined &&
      this.#ready.length + this.#opening < size &&
      this.#opening < atOnce &&
      hasRoom()
    ) {
      this.#opening += 1;
      void this.#openOne();
    }
  }

  /** Never rejects. A request that fails by the same cause reports it. */
  async #openOne(): Promise<void> {
    try {
      this.#keep(await this.#options.open());
    } catch {
      this.#opening -= 1;
      this.#failed();
      return;
    }
    this.#opening -= 1;
    this.fill();
  }

  #keep(socket: Socket): void {
    if (!this.#isStarted) {
      socket.destroy();
      return;
    }
    const openedAt = performance.now();
    const warm = new WarmConnection(socket, () => {
      this.#ready.splice(this.#ready.indexOf(warm), 1);
      if (performance.now() - openedAt < STEADY_MS) {
        this.#failed();
      } else {
        this.#failures = 0;
        this.fill();
      }
    });
    this.#ready.push(warm);
    this.#options.onReady();
  }

  #failed(): void {
    if (!this.#isStarted || this.#retry !== undefined) return;
    const waitMs = backoff(this.#failures, RETRY);
    this.#failures += 1;
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      this.fill();
    }, waitMs).unref();
  }
}

/** A connection that waits for its first request. */
class WarmConnection {
  readonly socket: Socket;
  readonly #onLost: () => void;

  constructor(socket: Socket, onLost: () => void) {
    this.socket = socket;
    this.#onLost = onLost;
    socket.unref();
    // Nothing may come before a request: a server sends such an error before it closes an unused connection.
    socket.on('data', this.#close);
    socket.on('error', this.#close);
    socket.once('close', onLost);
  }

  /** Gives it to a request. */
  release(): void {
    this.socket.off('data', this.#close);
    this.socket.off('error', this.#close);
    this.socket.off('close', this.#onLost);
    this.socket.ref();
  }

  readonly #close = (): void => {
    this.socket.destroy();
  };
}
