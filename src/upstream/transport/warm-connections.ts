import type { Socket } from 'node:net';

import { backoff } from '../../async/backoff.ts';

/** An unused connection, which doesn't keep the process alive. */
export interface WarmConnection {
  /** It can take a request. */
  readonly isOpen: boolean;
  /** Called once it is closed. */
  onLost: () => void;
  close(): void;
}

export interface WarmConnectionsOptions<Warm> {
  readonly size: number;
  readonly open: () => Promise<Warm>;
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
export class WarmConnections<Warm extends WarmConnection> {
  readonly #options: WarmConnectionsOptions<Warm>;
  readonly #ready: Warm[] = [];
  #opening = 0;
  #failures = 0;
  #retry: NodeJS.Timeout | undefined;
  #isStarted = false;

  constructor(options: WarmConnectionsOptions<Warm>) {
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
    for (const warm of this.#ready) warm.close();
  }

  /** Hands over the newest connection, which is the least likely to be closed by the provider at this moment. */
  take(): Warm | undefined {
    for (;;) {
      const warm = this.#ready.pop();
      if (!warm) return undefined;
      warm.onLost = () => {};
      if (!warm.isOpen) {
        warm.close();
        continue;
      }
      this.#failures = 0;
      this.fill();
      return warm;
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

  #keep(warm: Warm): void {
    if (!this.#isStarted) {
      warm.close();
      return;
    }
    // Closed before it had a listener, or useless.
    if (!warm.isOpen) {
      warm.close();
      this.#failed();
      return;
    }
    const openedAt = performance.now();
    warm.onLost = () => {
      this.#ready.splice(this.#ready.indexOf(warm), 1);
      if (performance.now() - openedAt < STEADY_MS) {
        this.#failed();
      } else {
        this.#failures = 0;
        this.fill();
      }
    };
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

/** A socket that waits for its first request. */
export class WarmSocket implements WarmConnection {
  onLost: () => void = () => {};
  /** It was opened a moment ago, for the request that takes it now. */
  isNew = false;
  readonly #socket: Socket;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.unref();
    // Nothing may come before a request: a server sends such an error before it closes an unused connection.
    socket.on('data', this.#close);
    socket.on('error', this.#close);
    socket.once('close', this.#closed);
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed;
  }

  close(): void {
    this.#socket.destroy();
  }

  /** Gives it to a request. */
  release(): Socket {
    const socket = this.#socket;
    socket.off('data', this.#close);
    socket.off('error', this.#close);
    socket.off('close', this.#closed);
    return socket.ref();
  }

  readonly #close = (): void => {
    this.#socket.destroy();
  };

  readonly #closed = (): void => {
    this.onLost();
  };
}
