/** How many accounts have to show a thing before it counts for the others. */
const SEVERAL = 3;

/**
 * Which accounts have met with something that the router learns from traffic: a refusal, a failure.
 *
 * It counts for an account that has met with it, and for all once three have: no customer's requests teach the
 * router what to do with those of others.
 */
export class Evidence {
  readonly #accounts = new Set<string>();

  /** Says whether it counts for all from now on, and did not before. */
  add(account: string): boolean {
    if (this.countsForAll) return false;
    this.#accounts.add(account);
    return this.countsForAll;
  }

  get countsForAll(): boolean {
    return this.#accounts.size >= SEVERAL;
  }

  countsFor(account: string): boolean {
    return this.countsForAll || this.#accounts.has(account);
  }

  clear(): void {
    this.#accounts.clear();
  }
}
