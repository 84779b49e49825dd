/** A log of all events: a hash of all lines, and the text of the last ones. */
export class EventLog {
  readonly #last: string[] = [];
  readonly #most: number;
  #hash = 0x811c9dc5;
  #count = 0;

  constructor(most = 400) {
    this.#most = most;
  }

  /** Differs as soon as one line differs (FNV-1a over the lines). */
  get hash(): string {
    return `${this.#count}-${(this.#hash >>> 0).toString(16)}`;
  }

  get last(): readonly string[] {
    return this.#most === Infinity ? this.#last : this.#last.slice(-this.#most);
  }

  add(line: string): void {
    let hash = this.#hash;
    for (let i = 0; i < line.length; i++) hash = Math.imul(hash ^ line.charCodeAt(i), 0x01000193);
    this.#hash = hash;
    this.#count += 1;
    this.#last.push(line);
    if (this.#last.length > 4 * this.#most) this.#last.splice(0, this.#last.length - this.#most);
  }
}
