import type { Proxy } from './proxy.ts';
import { TARGETS } from './targets.ts';

/** One line of the report: the median of its turns. */
export interface Figure {
  readonly what: string;
  readonly proxy: string;
  readonly value: number;
  readonly unit: string;
  /** The least and the most of the turns. */
  readonly span?: Span;
  /** The median of the ratios to the bare proxy's turn before each, or at the same time. */
  readonly ratio?: number;
  readonly ratioSpan?: Span;
  readonly target?: string;
}

export type Span = readonly [least: number, most: number];

/** What one run of one proxy gave, by the figure's name. */
export type Round = Readonly<Record<string, number>>;

/** What a proxy gave, and the bare one just before it or at the same time; the bare proxy's turns have the same twice. */
export interface Turn {
  readonly own: Round;
  readonly bare: Round;
}

/** By the proxy's name. */
export type Turns = ReadonlyMap<string, readonly Turn[]>;

export interface Row {
  readonly key: string;
  readonly what: string;
  readonly unit: string;
  /** `over`: less the bare proxy's, instead of divided by it. */
  readonly compare?: 'ratio' | 'over' | 'none';
  /** Left out where every turn of it is 0, as failures should be. */
  readonly unlessZero?: boolean;
}

/** The turns as lines, with their targets. */
export function toFigures(turns: Turns, rows: readonly Row[]): readonly Figure[] {
  return rows.flatMap(({ key, what, unit, compare = 'ratio', unlessZero }) =>
    [...turns].flatMap(([proxy, measured]) => {
      const values = measured.map(({ own }) => own[key] ?? Number.NaN);
      if (values.every(Number.isNaN)) return [];
      if (unlessZero && values.every((value) => value === 0)) return [];
      const bare = measured.map((turn) => turn.bare[key] ?? Number.NaN);
      if (compare === 'over') {
        return [figureOf(what, proxy, unit, lessBare(values, bare))];
      }
      const ratios = values.map((value, n) => value / (bare[n] ?? Number.NaN));
      const withRatio = compare === 'ratio' && !ratios.every(Number.isNaN);
      return [
        {
          ...figureOf(what, proxy, unit, values),
          ...(withRatio && { ratio: median(ratios), ratioSpan: spanOf(ratios) }),
        },
      ];
    }),
  );
}

/** A line of what several turns gave, with its target. */
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

export function lessBare(values: readonly number[], bare: readonly number[]): readonly number[] {
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
