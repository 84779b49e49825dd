import { Evidence } from '../metering/evidence.ts';
import type { Target } from '../catalog/model.ts';
import { PerTarget } from '../catalog/per-target.ts';

/** A target that refused is asked again after so long. */
const PROBE_MS = 60_000;

/** What is known of one target. */
class Rejections {
  readonly accounts = new Evidence();
  lastAt = 0;
  isReported = false;
}

/**
 * Which targets take `stream_options.include_usage`: those whose provider is said to, but for those that refuse it.
 *
 * A refusal counts for the account that met with it, and for all once several did. Every minute a request asks again; the
 * first one whose field is taken ends the matter.
 */
export class IncludeUsageSupport {
  readonly #rejections = new PerTarget(() => new Rejections());
  readonly #now: () => number;

  /** @param now - a clock that nobody sets, in ms */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Whether a request of this account is to ask for usage. */
  isSupported(target: Target, account: string): boolean {
    if (target.provider.streamUsage !== 'option') return false;
    const refusals = this.#rejections.of(target);
    if (!refusals.accounts.countsFor(account)) return true;
    const now = this.#now();
    if (now - refusals.lastAt < PROBE_MS) return false;
    // This one tries it, the others go on without until it is answered.
    refusals.lastAt = now;
    return true;
  }

  /** It answered a request with the field. */
  markSupported(target: Target): void {
    this.#rejections.of(target).accounts.clear();
  }

  /** It refused a request with the field, and took the same one without it. Returns what the operator should know of it. */
  markUnsupported(target: Target, account: string): Error | undefined {
    const refusals = this.#rejections.of(target);
    refusals.lastAt = this.#now();
    const countsForAllNow = refusals.accounts.add(account);
    if (refusals.isReported && !countsForAllNow) return undefined;
    refusals.isReported = true;
    const { provider, model } = target;
    return new Error(
      `The provider ${JSON.stringify(provider.name)} refused stream_options for ${JSON.stringify(model)}: ` +
        `${countsForAllNow ? 'all streams there' : 'streams of one account'} go without, and are charged by estimate ` +
        "unless usage comes unasked. It is tried again every minute; if it stays so, set streamUsage: 'rejected'",
    );
  }
}
