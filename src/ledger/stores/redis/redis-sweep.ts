/** Result of sweeping one account by one script. */
export interface Swept {
  /** Requests that were ended or deleted. */
  readonly count: number;
  /** When to sweep the account again, in ms; undefined: never. */
  readonly lookAgainAt: number | undefined;
}

export interface SweepRoundsOptions {
  /** Accounts that are known to have something due. */
  readonly claimed: () => AsyncIterable<string>;
  readonly all: () => AsyncGenerator<string>;
  readonly sweep: (account: string, atMost: number) => Promise<Swept>;
  readonly lookAgain: (account: string, at: number) => Promise<unknown>;
}

/** Maximum of requests that one script ends or deletes, to bound how long it blocks Redis. */
const MAX_SWEPT_BY_SCRIPT = 100;

/** Accounts of the round over all that one sweep visits; determines how soon an account with a lost hint is swept. */
const MAX_VISITED_BY_SWEEP = 100;

/** Selects the accounts that a sweep visits: those known to have something due, and the next hundred of all accounts. */
export class SweepRounds {
  readonly #options: SweepRoundsOptions;
  /** Position of the slow round over all accounts. */
  #round: AsyncGenerator<string> | undefined;

  constructor(options: SweepRoundsOptions) {
    this.#options = options;
  }

  /** Ends or deletes at most `budget` requests; returns how many. */
  async sweep(budget: number): Promise<number> {
    let left = budget;
    for await (const account of this.#options.claimed()) {
      left -= await this.#visit(account, left);
      if (left <= 0) break;
    }
    for (let visited = 0; visited < MAX_VISITED_BY_SWEEP; visited++) {
      const account = await this.#next();
      if (account === undefined) break;
      left -= await this.#visit(account, left);
    }
    return budget - left;
  }

  async #visit(account: string, most: number): Promise<number> {
    const { sweep, lookAgain } = this.#options;
    let left = most;
    for (;;) {
      const atMost = Math.min(left, MAX_SWEPT_BY_SCRIPT);
      const { count, lookAgainAt } = await sweep(account, atMost);
      left -= count;
      if (count > 0 && count === atMost && left > 0) continue;
      if (lookAgainAt !== undefined) await lookAgain(account, lookAgainAt);
      return most - left;
    }
  }

  /** The next account of the round over all; undefined at its end. */
  async #next(): Promise<string | undefined> {
    this.#round ??= this.#options.all();
    try {
      const next = await this.#round.next();
      if (!next.done) return next.value;
      this.#round = undefined;
      return undefined;
    } catch (error) {
      this.#round = undefined;
      throw error;
    }
  }
}
