import type { UsageMeter } from '../metering/usage-meter.ts';
import type { Target } from '../models/catalog.ts';
import type { Provider } from '../models/providers.ts';

/** Which targets say at the end of each stream that it is over: as their provider's options have it, else as was seen. */
export class EndMarks {
  /** By the model's name there: a target that is asked with another key is another object. */
  readonly #seen = new WeakMap<Provider, Set<string>>();

  expectedOf(target: Target): boolean {
    const { provider, knownAs } = target;
    return provider.marksEnd ?? this.#seen.get(provider)?.has(knownAs) ?? false;
  }

  /** A stream of this target's is over. */
  learn({ provider, knownAs }: Target, { format, finished }: Pick<UsageMeter, 'format' | 'finished'>): void {
    if (provider.marksEnd !== undefined || format !== 'event-stream' || !finished) return;
    const seen = this.#seen.get(provider);
    if (seen) seen.add(knownAs);
    else this.#seen.set(provider, new Set([knownAs]));
  }
}
