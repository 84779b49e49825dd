/** Tolerance: replies arrive late, and the clocks of a cluster's servers differ. */
const SLACK_MS = 10_000;
/** A clock that is ahead is trusted after this time, in which all running gateways renew their leases. */
const CONFIRM_MS = 60_000;

/**
 * Upper bound for ending leases, derived from the times of Redis that this process has seen.
 *
 * Redis's clock is the wall clock of another machine, and of a third one after a failover. When it steps forward, leases
 * of running requests appear to have run out until their gateways renew them. This process's monotonic clock bounds the
 * plausible time; a Redis clock beyond it is trusted once it has been ahead for a minute.
 */
export class LeaseHorizon {
  readonly #elapsed: () => number;
  /** The same moment by two clocks, in ms. */
  #trusted: { readonly redis: number; readonly elapsed: number } | undefined;
  #aheadSince: number | undefined;

  /** @param elapsed - monotonic clock, in ms */
  constructor(elapsed: () => number) {
    this.#elapsed = elapsed;
  }

  /** In ms of Redis's clock; undefined before the first reply. */
  get time(): number | undefined {
    const { redis, elapsed } = this.#trusted ?? {};
    if (redis === undefined || elapsed === undefined) return undefined;
    return Math.floor(redis + this.#elapsed() - elapsed + SLACK_MS);
  }

  /** @param now - Redis's clock, from a reply that has just arrived */
  sync(now: number): void {
    const elapsed = this.#elapsed();
    const { time = now } = this;
    if (now > time) {
      this.#aheadSince ??= elapsed;
      if (elapsed - this.#aheadSince < CONFIRM_MS) return;
    }
    this.#aheadSince = undefined;
    this.#trusted = { redis: now, elapsed };
  }
}
