import type { UsageMeter } from '../metering/usage-meter.ts';
import type { Target } from '../models/catalog.ts';

/** Which targets say at the end of each stream that it is over: as their provider's options have it, else as was seen. */
export class EndMarks {
  /** By name: a target that is asked with another key is another object. */
  readonly #seen = new Set<string>();

  expectedOf(target: Target): boolean {
    return target.provider.marksEnd ?? this.#seen.has(nameOf(target));
  }

  /** A stream of this target's is over. */
  learn(target: Target, { format, finished }: Pick<UsageMeter, 'format' | 'finished'>): void {
    if (target.provider.marksEnd === undefined && format === 'event-stream' && finished)
      this.#seen.add(nameOf(target));
  }
}

function nameOf({ provider, model }: Target): string {
  return `${provider.name}/${model}`;
}
