import type { Random } from '../simulation/random.ts';
import type { GatewayPlace } from './gateway-place.ts';
import type { Operators } from './operators.ts';
import type { Fault, Timeline } from './timeline.ts';

/** What a nemesis may break. */
export interface Stage {
  readonly places: readonly GatewayPlace[];
  readonly operators: Pick<Operators, 'hold'>;
  readonly timeline: Timeline;
  readonly random: Random;
  /** When all must be whole again, by `Date.now()`. */
  readonly endsAt: number;
}

/** Breaks something, and has healed it when it resolves. */
export interface Nemesis {
  readonly name: string;
  /** What it breaks. One that breaks gateways and one that breaks the store may strike at once. */
  readonly group: 'gateways' | 'store' | 'both';
  strike(stage: Stage, fault: Fault): Promise<void>;
}

/** Until all must be whole again, in ms. */
export function leftMs({ endsAt }: Stage): number {
  return Math.max(0, endsAt - Date.now());
}

/** Of so many seconds, most often the lower ones, but no longer than is left. */
export function drawMs(stage: Stage, leastSeconds: number, mostSeconds: number): number {
  const drawn = stage.random.skewed(leastSeconds, mostSeconds) * 1000;
  return Math.round(Math.max(50, Math.min(drawn, leftMs(stage))));
}
