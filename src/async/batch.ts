// Not the global one, which tests of an app replace: an immediate that is lost would stop the batch for ever.
import { setImmediate } from 'node:timers';

/**
 * Takes the same step of many requests in a row: at the end of the turn of the event loop in which they came to it.
 *
 * Without it, each request takes all of its steps when its socket's event comes, and the next one finds the processor's
 * caches full of the last step's code.
 */
export class Batch<Item> {
  readonly #step: (item: Item) => void;
  #waiting: Item[] = [];

  /** @param step - must not throw */
  constructor(step: (item: Item) => void) {
    this.#step = step;
  }

  add(item: Item): void {
    if (this.#waiting.push(item) === 1) setImmediate(this.#run);
  }

  readonly #run = (): void => {
    const items = this.#waiting;
    this.#waiting = [];
    for (const item of items) this.#step(item);
  };
}
