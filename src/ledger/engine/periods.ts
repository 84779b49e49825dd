import type { AllowanceTerms } from '../contract/allowances.ts';
import { DAY_MS } from '../contract/usage.ts';

/**
 * Periods of an allowance, by their starts in ms. All arithmetic is with integers, in UTC, and takes the same time
 * however far two periods are apart.
 */

export type Grid = Pick<AllowanceTerms, 'per' | 'anchor'>;

const LENGTHS = { hour: DAY_MS / 24, day: DAY_MS, week: 7 * DAY_MS };

/** Start of the period that a time is in. */
export function periodStart(grid: Grid, time: number): number {
  const { per, anchor } = grid;
  if (per !== 'month') return time - modulo(time - anchor, LENGTHS[per]);
  const month = monthOf(time);
  const start = startInMonth(anchor, month);
  return start > time ? startInMonth(anchor, month - 1) : start;
}

/** Start of the period `count` periods after, or before, the one that begins at `start`. */
export function laterPeriod({ per, anchor }: Grid, start: number, count: number): number {
  if (per !== 'month') return start + count * LENGTHS[per];
  return startInMonth(anchor, monthOf(start) + count);
}

/** How many periods lie between two starts. */
export function periodsBetween({ per }: Grid, start: number, later: number): number {
  if (per !== 'month') return (later - start) / LENGTHS[per];
  return monthOf(later) - monthOf(start);
}

/** When the period of a month begins: on the anchor's day of the month, or on the last day of a shorter month. */
function startInMonth(anchor: number, month: number): number {
  const first = Date.UTC(0, month + MONTHS_OF_1900);
  const days = (Date.UTC(0, month + MONTHS_OF_1900 + 1) - first) / DAY_MS;
  const day = Math.min(new Date(anchor).getUTCDate(), days);
  return first + (day - 1) * DAY_MS + modulo(anchor, DAY_MS);
}

/** Months since January of the year 0. */
function monthOf(time: number): number {
  const date = new Date(time);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

/** `Date.UTC` takes the year 0 for 1900. */
const MONTHS_OF_1900 = -1900 * 12;

function modulo(number: number, divisor: number): number {
  return ((number % divisor) + divisor) % divisor;
}
