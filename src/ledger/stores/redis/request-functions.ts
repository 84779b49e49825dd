import { requestLibrary } from './lua/library.ts';
import type { RedisConnection } from './redis-connection.ts';

/**
 * Whether the scripts of requests are called as functions of Redis, which takes less of its time.
 *
 * The library is loaded when a function is not found: at first, and where a server has lost it. Meanwhile, and for a while
 * where functions are refused, the same commands are sent as scripts. An old library is never deleted, because another
 * version of the router may use it.
 */
export class RequestFunctions {
  readonly #connection: RedisConnection;
  readonly #timeoutMs: number;
  /** Until when scripts are sent, by `performance.now()`. */
  #offUntil = 0;
  #loadedAt = -Infinity;

  constructor(connection: RedisConnection, timeoutMs: number) {
    this.#connection = connection;
    this.#timeoutMs = timeoutMs;
  }

  /** The name of the function that a script is; undefined if it is to be sent as a script. */
  nameOf(script: unknown): string | undefined {
    return performance.now() < this.#offUntil ? undefined : requestLibrary().functions.get(script);
  }

  /** Learns from the error of a function: the library is loaded, or functions are left out for a while.
   *
   * @returns whether to send the script instead
   */
  fallsBack(error: unknown): boolean {
    if (!(error instanceof Error && error.cause instanceof Error)) return false;
    const { message } = error.cause;
    if (message.startsWith('ERR Function not found')) this.#load();
    else if (/^NOPERM|^ERR unknown command/.test(message)) this.#turnOff();
    else return false;
    return true;
  }

  #load(): void {
    const now = performance.now();
    if (now < this.#offUntil) return;
    // A server that lost it at once would be sent each command twice.
    if (now - this.#loadedAt < AGAIN_MS) return this.#turnOff();
    this.#offUntil = Infinity;
    this.#connection.tellPrimaries(this.#timeoutMs, 'function', 'LOAD', requestLibrary().source).then(
      () => {
        this.#loadedAt = performance.now();
        this.#offUntil = 0;
      },
      () => this.#turnOff(),
    );
  }

  #turnOff(): void {
    this.#offUntil = performance.now() + OFF_MS;
  }
}

const AGAIN_MS = 1000;
const OFF_MS = 60_000;
