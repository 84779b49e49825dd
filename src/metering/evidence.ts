/** Number of accounts after which an observation counts for all. */
export const MIN_ACCOUNTS = 3;

/**
 * The accounts for which something was observed in traffic: a rejection, a failure.
 *
 * It counts for such an account at once, and for all accounts after three, so that one customer's requests can't change
 * how the router treats other customers.
 */
export class Evidence {
  readonly #accounts = new Set<string>();

  /** Returns true if it counts for all from now on, and did not before. */
  add(account: string): boolean {
    if (this.countsForAll) return false;
    this.#accounts.add(account);
    return this.countsForAll;
  }

  get countsForAll(): boolean {
    return this.#accounts.size >= MIN_ACCOUNTS;
  }

  countsFor(account: string): boolean {
    return this.countsForAll || this.#accounts.has(account);
  }

  clear(): void {
    if (this.#accounts.size > 0) this.#accounts.clear();
  }
}

/**
 * Counts an observation per account; it takes effect at a threshold.
 *
 * For an account, its own count weighs in full, that of each other account up to half of the threshold. For an account
 * without observations, at least three others must have some: no account's requests alone decide for others.
 */
export class Tally {
  readonly #threshold: number;
  readonly #times = new Map<string, number>();

  constructor(threshold: number) {
    this.#threshold = threshold;
  }

  add(account: string): void {
    const own = this.#times.get(account) ?? 0;
    // Further accounts change nothing.
    if (own >= this.#threshold || (own === 0 && this.countsForAll)) return;
    this.#times.set(account, own + 1);
  }

  get countsForAll(): boolean {
    return this.#times.size >= MIN_ACCOUNTS && this.#weightFor(undefined) >= this.#threshold;
  }

  countsFor(account: string): boolean {
    return this.countsForAll || (this.#times.has(account) && this.#weightFor(account) >= this.#threshold);
  }

  clear(): void {
    // Called for each answer. V8 makes a new table for each `clear`, in the old generation, even of a map that is empty.
    if (this.#times.size > 0) this.#times.clear();
  }

  #weightFor(account: string | undefined): number {
    const share = Math.ceil(this.#threshold / 2);
    let weight = 0;
    for (const [each, times] of this.#times) weight += each === account ? times : Math.min(times, share);
    return weight;
  }
}
