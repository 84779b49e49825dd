import { Evidence } from '../metering/evidence.ts';
import { type Target, PerTarget } from '../catalog/model.ts';
import type { UsageMeter } from '../metering/usage-meter.ts';

/** Pause before a target that rejected the field is probed again. */
const PROBE_MS = 60_000;

/** Rejections by one target. */
class Rejections {
  readonly accounts = new Evidence();
  lastAt = 0;
  isReported = false;
}

/** Which targets accept `stream_options.include_usage`: those of providers configured to, except those that rejected it.
 *
 * A rejection counts for its account, and for all once several accounts had one. Every minute one request probes the
 * target; the first success clears its rejections.
 */
export class IncludeUsageSupport {
  readonly #rejections = new PerTarget(() => new Rejections());
  readonly #now: () => number;

  /** @param now - monotonic clock, in ms */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Whether a request of this account may ask for usage. */
  isSupported(target: Target, account: string): boolean {
    if (target.provider.streamUsage !== 'option') return false;
    const rejections = this.#rejections.of(target);
    if (!rejections.accounts.countsFor(account)) return true;
    const now = this.#now();
    if (now - rejections.lastAt < PROBE_MS) return false;
    // This request probes; others go without until it is answered.
    rejections.lastAt = now;
    return true;
  }

  /** The target answered a request with the field. */
  markSupported(target: Target): void {
    this.#rejections.of(target).accounts.clear();
  }

  /**
   * The target rejected a request with the field, and accepted it without.
   *
   * @returns an error for the operator, the first time and once it counts for all accounts
   */
  markUnsupported(target: Target, account: string): Error | undefined {
    const rejections = this.#rejections.of(target);
    rejections.lastAt = this.#now();
    const countsForAllNow = rejections.accounts.add(account);
    if (rejections.isReported && !countsForAllNow) return undefined;
    rejections.isReported = true;
    const { provider, model } = target;
    return new Error(
      `Provider ${JSON.stringify(provider.name)} rejected stream_options for ${JSON.stringify(model)}: ` +
        `${countsForAllNow ? 'all its streams' : 'streams of one account'} are sent without it, and charged by estimate` +
        ". If this persists, set streamUsage: 'rejected'",
    );
  }
}

/** Which targets mark the end of each stream: from the provider's options, else learned from traffic. */
export class StreamTermination {
  readonly #evidence = new PerTarget(() => new Evidence());

  expectedOf(target: Target, account: string): boolean {
    return target.provider.marksEnd ?? this.#evidence.of(target).countsFor(account);
  }

  /** Learns from a stream that is over. */
  learn(
    target: Target,
    { format, finished }: Pick<UsageMeter, 'format' | 'finished'>,
    account: string,
  ): void {
    if (target.provider.marksEnd !== undefined || format !== 'event-stream' || !finished) return;
    this.#evidence.of(target).add(account);
  }
}
