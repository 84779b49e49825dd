import type { Proxy } from './proxy.ts';
import { TARGETS } from './targets.ts';

/** One line of the report: the median of its rounds. */
export interface Figure {
  readonly what: string;
  readonly proxy: string;
  readonly value: number;
  readonly unit: string;
  /** The least and the most of the rounds. */
  readonly span?: Span;
  /** The median of the rounds' ratios to the bare proxy in the same round. */
  readonly ratio?: number;
  readonly ratioSpan?: Span;
  readonly target?: string;
}

export type Span = readonly [least: number, most: number];

/** What one round of one proxy gave, by the figure's name. */
export type Round = Readonly<Record<string, number>>;

export interface Row {
  readonly key: string;
  readonly what: string;
  readonly unit: string;
  /** `over`: less the bare proxy's, instead of divided by it. */
  readonly compare?: 'ratio' | 'over' | 'none';
  /** Left out where every round of it is 0, as failures should be. */
  readonly unlessZero?: boolean;
}

/** The rounds as lines, with their targets. */
export function toFigures(
  rounds: ReadonlyMap<string, readonly Round[]>,
  rows: readonly Row[],
): readonly Figure[] {
  const bare = rounds.get('bare') ?? [];
  return rows.flatMap(({ key, what, unit, compare = 'ratio', unlessZero }) =>
    [...rounds].flatMap(([proxy, measured]) => {
      const values = measured.map((round) => round[key] ?? Number.NaN);
      if (values.every(Number.isNaN)) return [];
      if (unlessZero && values.every((value) => value === 0)) return [];
      const others = bare.map((round) => round[key] ?? Number.NaN);
      if (compare === 'over') {
        return [figureOf(what, proxy, unit, lessBare(values, others))];
      }
      const ratios = values.map((value, n) => value / (others[n] ?? Number.NaN));
      const withRatio = compare === 'ratio' && others.length > 0;
      return [
        {
          ...figureOf(what, proxy, unit, values),
          ...(withRatio && { ratio: median(ratios), ratioSpan: spanOf(ratios) }),
        },
      ];
    }),
  );
}

/** A line of what several rounds gave, with its target. */
export function figureOf(what: string, proxy: string, unit: string, values: readonly number[]): Figure {
  const target = TARGETS[what]?.[proxy];
  return {
    what,
    proxy,
    value: median(values),
    unit,
    ...(values.length > 1 && { span: spanOf(values) }),
    ...(target !== undefined && { target }),
  };
}

function lessBare(values: readonly number[], bare: readonly number[]): readonly number[] {
  return values.map((value, n) => value - (bare[n] ?? Number.NaN));
}

function spanOf(values: readonly number[]): Span {
  const known = values.filter((value) => !Number.isNaN(value));
  return [Math.min(...known), Math.max(...known)];
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function quantile(values: readonly number[], share: number): number {
  const sorted = values.filter((value) => !Number.isNaN(value)).toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** What the load generator needs to send requests to a proxy. */
export function addressOf({ port, path, key, headers }: Proxy): Readonly<Record<string, unknown>> {
  return { port, path, key, headers };
}
