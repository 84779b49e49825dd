import { axisMoney, grouped, money, percent, short } from '../format.ts';
import type { Fact } from '../tooltip.tsx';
import type { Sums } from './sums.ts';

/** Unit of the bars. */
export type Unit = 'charged' | 'requests' | 'tokens';

export function amountOf(sums: Sums, unit: Unit): number {
  return Number(sums[unit]);
}

export function writeAmount(amount: number, unit: Unit): string {
  return unit === 'charged' ? money(BigInt(Math.round(amount))) : short(amount);
}

/** A label of an axis whose labels are `distance` apart. */
export function writeMark(amount: number, distance: number, unit: Unit): string {
  return unit === 'charged' ? axisMoney(amount, distance) : short(amount);
}

/** All facts of some usage, except the one in the headline. */
export function factsOf(sums: Sums, headline: Unit): Fact[] {
  const isCostKnown = sums.cost > 0n;
  const margin = sums.costed - sums.cost;
  const facts: (Fact & { readonly unit?: Unit })[] = [
    { unit: 'charged', name: 'Charged', value: money(sums.charged) },
    ...(sums.hasCost ? [{ name: 'Cost', value: isCostKnown ? money(sums.cost) : 'unknown' }] : []),
    ...(isCostKnown ? [{ name: 'Margin', value: `${money(margin)} (${percent(margin, sums.costed)})` }] : []),
    { unit: 'requests', name: 'Requests', value: grouped(sums.requests) },
    { name: 'Errors', value: grouped(sums.errors) },
    { name: 'Aborted', value: grouped(sums.aborted) },
    { name: 'Prompt tokens', value: grouped(sums.prompt) },
    { name: 'Cached prompt tokens', value: grouped(sums.cached) },
    { name: 'Completion tokens', value: grouped(sums.completion) },
  ];
  return facts.filter(({ unit }) => unit !== headline);
}
