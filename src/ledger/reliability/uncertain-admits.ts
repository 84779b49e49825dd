/** Of admits that nobody knows the outcome of, so many are looked after; the leases of others end them. */
export const MAX_UNCERTAIN_ADMITS = 10_000;

/** Request ids of admits that may have been applied, though they were refused, to the end of their leases. */
export class UncertainAdmits {
  readonly #until = new Map<string, number>();

  remember(requestId: string, until: number): void {
    this.#until.set(requestId, until);
    for (const oldest of this.#until.keys()) {
      if (this.#until.size <= MAX_UNCERTAIN_ADMITS) return;
      this.#until.delete(oldest);
    }
  }

  /** Forgets it, and says when its lease ends; undefined when it is none. */
  take(requestId: string): number | undefined {
    const until = this.#until.get(requestId);
    this.#until.delete(requestId);
    return until;
  }
}
