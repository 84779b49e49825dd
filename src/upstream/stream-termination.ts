import { Evidence } from '../metering/evidence.ts';
import type { UsageMeter } from '../metering/usage-meter.ts';
import type { Target } from '../catalog/model.ts';
import { PerTarget } from '../catalog/per-target.ts';

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
