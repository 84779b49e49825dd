import type { RedisClient } from './redis-client.ts';

/** Gathers what a client writes in one turn of the event loop: one system call and one packet for many commands. */
export class TurnWrites {
  #streams: NonNullable<RedisClient['stream']>[] | undefined;

  /** Call it before the client writes. */
  gather(client: RedisClient): void {
    if (this.#streams) return;
    this.#streams = [];
    for (const { stream } of client.nodes?.('master') ?? [client]) {
      if (!stream) continue;
      stream.cork();
      this.#streams.push(stream);
    }
    setImmediate(this.#release);
  }

  readonly #release = (): void => {
    const streams = this.#streams ?? [];
    this.#streams = undefined;
    for (const stream of streams) stream.uncork();
  };
}
