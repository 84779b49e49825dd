/** Runs the steps of a subject one after another; those of others run meanwhile. */
export class Turns {
  /** The last step of each subject that has one running. */
  readonly #last = new Map<string, Promise<unknown>>();

  /** Runs the step when those before it have ended, however they ended. */
  async take<T>(subject: string, step: () => Promise<T>): Promise<T> {
    const before = this.#last.get(subject);
    const turn = (async () => {
      await before?.catch(() => {});
      return await step();
    })();
    this.#last.set(subject, turn);
    try {
      return await turn;
    } finally {
      if (this.#last.get(subject) === turn) this.#last.delete(subject);
    }
  }
}
