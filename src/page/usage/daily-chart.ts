import type { UsageRow } from './range-usage.ts';
import { longDay } from '../format.ts';
import type { PointDetails } from '../tooltip.tsx';
import type { RangeUsage } from './range-usage.ts';
import { type Sums, sum } from './sums.ts';
import { REST } from './tones.ts';
import { amountOf, factsOf, type Unit, writeAmount } from './units.ts';

/** A model, or all other models together. */
export interface Series {
  readonly name: string;
  readonly tone: string;
  /** One for each day. */
  readonly values: readonly number[];
}

/** The chart of a range of days. */
export interface DailyChart {
  readonly unit: Unit;
  readonly days: readonly string[];
  /** From the bottom up. */
  readonly series: readonly Series[];
  /** One for each day. */
  readonly totals: readonly number[];
  /** Accessible name of the plot. */
  readonly summary: string;
  /** One for each day. */
  readonly points: readonly PointDetails[];
}

export function dailyChart(
  { days, models }: RangeUsage,
  unit: Unit,
  tones: ReadonlyMap<string, string>,
): DailyChart {
  const rowsOf = Map.groupBy(models, ({ day }) => day);
  const rows = days.map((day) => rowsOf.get(day) ?? []);
  const series = seriesOf(rows, unit, tones);
  const totals = days.map((_, i) => series.reduce((sum, { values }) => sum + (values[i] ?? 0), 0));
  const points = days.map((day, i): PointDetails => {
    const drawn = series.filter(({ values }) => (values[i] ?? 0) > 0).toReversed();
    return {
      title: longDay(day),
      headline: writeAmount(totals[i] ?? 0, unit),
      parts: drawn.map(({ name, tone, values }) => ({
        name,
        tone,
        value: writeAmount(values[i] ?? 0, unit),
      })),
      facts: factsOf(sum(rows[i] ?? []), unit),
    };
  });
  return { unit, days, series, totals, points, summary: summaryOf(days, totals, unit) };
}

function seriesOf(
  days: readonly (readonly UsageRow[])[],
  unit: Unit,
  tones: ReadonlyMap<string, string>,
): Series[] {
  const toneOf = ({ model = '' }: UsageRow): string => tones.get(model) ?? REST;
  const byTone = days.map((rows) => Map.groupBy(rows, toneOf));
  const names = new Map([...tones].toReversed().map(([model, tone]) => [tone, model]));
  const others = [...tones.values()].filter((tone) => tone === REST).length;
  if (others > 1) names.set(REST, `${others} others`);
  return [...names]
    .toReversed()
    .map(([tone, name]) => ({
      name,
      tone,
      values: byTone.map((rowsOf) => amountOf(sum(rowsOf.get(tone) ?? []), unit)),
    }))
    .sort((one, other) => Number(one.tone === REST) - Number(other.tone === REST));
}

function summaryOf(days: readonly string[], totals: readonly number[], unit: Unit): string {
  const all = totals.reduce((sum, total) => sum + total, 0);
  const max = Math.max(...totals);
  const maxDay = longDay(days[totals.indexOf(max)] ?? '');
  return (
    `${writeAmount(all, unit)} ${unit} in ${days.length} days, by model; maximum ${writeAmount(max, unit)} on ${maxDay}. ` +
    'Use the arrow keys to move between days.'
  );
}

/** A day of the table. */
export function dailySums({ days, models }: RangeUsage): { readonly day: string; readonly sums: Sums }[] {
  const rowsOf = Map.groupBy(models, ({ day }) => day);
  return days.toReversed().map((day) => ({ day, sums: sum(rowsOf.get(day) ?? []) }));
}
