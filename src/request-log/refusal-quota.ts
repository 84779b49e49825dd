/** Refusals of an account that are logged in a minute. */
const MAX_A_MINUTE = 100;
/** Accounts that are counted apart in a minute; the others share a count. */
const MAX_ACCOUNTS = 10_000;
const MINUTE_MS = 60_000;

/**
 * Which refusals are logged: they cost a client nothing, so a flood of them must not push the requests of others out of the
 * log.
 */
export class RefusalQuota {
  /** How many were not. */
  leftOut = 0;
  #minute = 0;
  readonly #counts = new Map<string, number>();

  allows(account: string): boolean {
    const minute = Math.floor(performance.now() / MINUTE_MS);
    if (minute !== this.#minute) this.#counts.clear();
    this.#minute = minute;
    const name = this.#counts.has(account) || this.#counts.size < MAX_ACCOUNTS ? account : OTHERS;
    const count = (this.#counts.get(name) ?? 0) + 1;
    this.#counts.set(name, count);
    if (count <= MAX_A_MINUTE) return true;
    this.leftOut += 1;
    return false;
  }
}

/** No account's id. */
const OTHERS = '';
