import type { Readable } from 'node:stream';

/** How many bytes of an answer are looked at before others have their turn. */
const MOST_OF_A_TURN = 32_768;

/** Lets others have a turn: a socket gives megabytes in one, and an answer may be made to be slow to read. */
export class Turns {
  readonly #body: Readable;
  readonly #mayGoOn: () => boolean;
  #bytes = 0;
  #next: NodeJS.Immediate | undefined;

  /** @param mayGoOn - whether the body may be read on, when its turn comes again */
  constructor(body: Readable, mayGoOn: () => boolean) {
    this.#body = body;
    this.#mayGoOn = mayGoOn;
  }

  /** This many bytes of the body were looked at. */
  took(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes < MOST_OF_A_TURN) return;
    this.#bytes = 0;
    this.#body.pause();
    this.#next = setImmediate(() => {
      if (this.#mayGoOn()) this.#body.resume();
    });
  }

  stop(): void {
    clearImmediate(this.#next);
  }
}
