import type { WriteStream } from 'node:tty';

/** Throttles updates: a terminal is slower than a loop. */
const MIN_INTERVAL_MS = 100;

/** A progress line on a terminal, cleared before other output. */
export class Progress {
  readonly #terminal: Pick<WriteStream, 'isTTY' | 'write'>;
  readonly #now: () => number;
  #shownAt = -Infinity;
  #isShown = false;

  constructor(terminal: Pick<WriteStream, 'isTTY' | 'write'>, now: () => number = Date.now) {
    this.#terminal = terminal;
    this.#now = now;
  }

  show(text: string): void {
    if (!this.#terminal.isTTY || this.#now() - this.#shownAt < MIN_INTERVAL_MS) return;
    this.#shownAt = this.#now();
    this.#isShown = true;
    this.#terminal.write(`\r\u001b[K${text}`);
  }

  clear(): void {
    if (!this.#isShown) return;
    this.#isShown = false;
    this.#terminal.write('\r\u001b[K');
  }
}
