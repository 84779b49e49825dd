import type { Allow, Allowance } from '../../src/ledger/contract/allowances.ts';

/** An allowance of the model. Its periods are found by counting from the anchor, one at a time. */
export interface ModelAllowance {
  readonly id: string;
  readonly per: Allow['per'];
  readonly anchor: number;
  version: number;
  amount: bigint;
  rollover: Allow['rollover'];
  priority: number;
  until: number;
  /** Number of the latest granted period; 0 begins at the anchor. */
  period: number;
  granted: bigint;
}

type Periods = Pick<ModelAllowance, 'per' | 'anchor'>;

const HOUR = 3_600_000;
const LENGTHS = { hour: HOUR, day: 24 * HOUR, week: 7 * 24 * HOUR };

/** When the n-th period begins. */
export function startOf({ per, anchor }: Periods, n: number): number {
  if (per !== 'month') return anchor + n * LENGTHS[per];
  const date = new Date(anchor);
  const wanted = date.getUTCDate();
  date.setUTCDate(1);
  date.setUTCMonth(date.getUTCMonth() + n);
  const last = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  date.setUTCDate(Math.min(wanted, last));
  return date.getTime();
}

/** The number of the period that a time is in. */
export function periodAt(periods: Periods, time: number): number {
  let n = 0;
  while (startOf(periods, n) > time) n -= 1;
  while (startOf(periods, n + 1) <= time) n += 1;
  return n;
}

/** The numbers of the periods that began since the latest granted one, while the allowance lasted. */
export function missedPeriods(allowance: ModelAllowance, now: number): number[] {
  const missed: number[] = [];
  for (let n = allowance.period + 1; ; n++) {
    const start = startOf(allowance, n);
    if (start > now || start >= allowance.until) return missed;
    missed.push(n);
  }
}

export function lotIdOf(allowance: ModelAllowance, n: number): string {
  return `allowance:${allowance.id}:${new Date(startOf(allowance, n)).toISOString().replace('.000Z', 'Z')}`;
}

/** When the lot of the n-th period expires; undefined: never. */
export function expiryOf(
  allowance: ModelAllowance,
  n: number,
  rollover = allowance.rollover,
): number | undefined {
  if (rollover === 'all') return undefined;
  return startOf(allowance, rollover === 'none' ? n + 1 : n + 2);
}

export function allowanceState({ until, period, ...allowance }: ModelAllowance): Allowance {
  return {
    ...allowance,
    ...(until !== Infinity && { until }),
    periodStart: startOf(allowance, period),
    resetsAt: startOf(allowance, period + 1),
  };
}
