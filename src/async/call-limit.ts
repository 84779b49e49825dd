/** How many calls of a subject run at a time; further ones are refused. */
export class CallLimit {
  readonly #max: number;
  readonly #refusal: (max: number) => Error;
  readonly #running = new Map<string, number>();

  /** @param refusal - what a call beyond the number rejects with */
  constructor(max: number, refusal: (max: number) => Error) {
    this.#max = max;
    this.#refusal = refusal;
  }

  async run<T>(subject: string, call: () => Promise<T>): Promise<T> {
    const before = this.#running.get(subject) ?? 0;
    if (before >= this.#max) throw this.#refusal(this.#max);
    this.#running.set(subject, before + 1);
    try {
      return await call();
    } finally {
      const rest = (this.#running.get(subject) ?? 1) - 1;
      if (rest === 0) this.#running.delete(subject);
      else this.#running.set(subject, rest);
    }
  }
}
