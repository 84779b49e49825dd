/** How many accounts have to show a thing before it counts for the others. */
const MIN_ACCOUNTS = 3;

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
    return this.#accounts.size >= MIN_ACCOUNTS;
  }

  countsFor(account: string): boolean {
    return this.countsForAll || this.#accounts.has(account);
  }

  clear(): void {
    this.#accounts.clear();
  }
}

/**
 * How often accounts have met with something of which several times are needed before it counts.
 *
 * For an account its own times count in full, those of each other one up to half of what is needed. For one that has not met with it
 * at all it counts once three have: one account's requests alone decide nothing for others.
 */
export class Tally {
  readonly #threshold: number;
  readonly #times = new Map<string, number>();

  constructor(threshold: number) {
    this.#threshold = threshold;
  }

  add(account: string): void {
    const own = this.#times.get(account) ?? 0;
    // Of so many accounts no more have to be known.
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
    this.#times.clear();
  }

  #weightFor(account: string | undefined): number {
    const share = Math.ceil(this.#threshold / 2);
    let weight = 0;
    for (const [each, times] of this.#times) weight += each === account ? times : Math.min(times, share);
    return weight;
  }
}
