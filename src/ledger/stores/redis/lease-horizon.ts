/** Redis's clock may seem ahead by so much: answers come late, and not all of a cluster have the same clock. */
const SLACK_MS = 10_000;
/** So long a clock must have been ahead before it is believed: in that time all gateways that run renew their leases. */
const CONFIRM_MS = 60_000;

/**
 * Until when leases may be ended, by what this process has seen of Redis's clock.
 *
 * That clock is the wall clock of another machine, and after a failover of yet another. Where it steps forward, leases of
 * requests that run seem to be over, until their gateways renew them. A clock of this process, that is never set, tells
 * what time it can be at most; a clock that shows more is believed once it has done so for a minute.
 */
export class LeaseHorizon {
  readonly #elapsed: () => number;
  /** The same moment by two clocks. */
  #trusted: { readonly redis: number; readonly elapsed: number } | undefined;
  #aheadSince: number | undefined;

  /** @param elapsed - a clock that is never set, in ms */
  constructor(elapsed: () => number) {
    this.#elapsed = elapsed;
  }

  /** In ms of Redis's clock; undefined while nothing is known of it. */
  get time(): number | undefined {
    const { redis, elapsed } = this.#trusted ?? {};
    if (redis === undefined || elapsed === undefined) return undefined;
    return Math.floor(redis + this.#elapsed() - elapsed + SLACK_MS);
  }

  /** @param now - Redis's clock, of a reply that has just come */
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
