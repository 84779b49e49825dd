/** What came of a script that swept one account. */
export interface Swept {
  readonly count: number;
  /** When something comes due there; undefined: never. */
  readonly lookAgainAt: number | undefined;
}

export interface SweepRoundsOptions {
  /** Accounts of which it is known that something is due. */
  readonly claimed: () => AsyncIterable<string>;
  readonly all: () => AsyncGenerator<string>;
  readonly sweep: (account: string, atMost: number) => Promise<Swept>;
  readonly lookAgain: (account: string, at: number) => Promise<unknown>;
}

/** Ids that one script ends or forgets, so that it doesn't keep others waiting. */
const SWEPT_BY_SCRIPT = 100;

/** Accounts that one sweep visits of its round over all, whose size sets how soon a lost hint is found. */
const VISITED_BY_SWEEP = 100;

/** Which accounts a sweep visits: those of which it is known that something is due, and the next hundred of all. */
export class SweepRounds {
  readonly #options: SweepRoundsOptions;
  /** Where the slow round over all accounts is. */
  #round: AsyncGenerator<string> | undefined;

  constructor(options: SweepRoundsOptions) {
    this.#options = options;
  }

  /** Ends and forgets at most `budget` requests; says how many. */
  async sweep(budget: number): Promise<number> {
    let left = budget;
    for await (const account of this.#options.claimed()) {
      left -= await this.#visit(account, left);
      if (left <= 0) break;
    }
    for (let visited = 0; visited < VISITED_BY_SWEEP; visited++) {
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
      const atMost = Math.min(left, SWEPT_BY_SCRIPT);
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
