import type { JSX, RefObject } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

import { shortDay } from '../format.ts';
import { usePoints } from '../tooltip.tsx';
import { ticks } from './axis.ts';
import type { DailyChart } from './daily-chart.ts';
import { writeMark } from './units.ts';

const HEIGHT = 264;
const TOP = 12;
const BOTTOM = 28;

/** Coordinates of the plot, in px. */
interface Scale {
  readonly width: number;
  /** Left edge of the first bar, right of the axis labels. */
  readonly left: number;
  /** Width of a day. */
  readonly step: number;
  readonly marks: readonly { readonly y: number; readonly label: string }[];
  readonly y: (amount: number) => number;
}

/** Stacked bars: a bar for each day, with a segment for each model. */
export function DailyPlot({ chart }: { readonly chart: DailyChart }): JSX.Element {
  const [plot, width] = useWidth<HTMLDivElement>();
  const handlers = usePoints(chart.points, chart.days.length - 1);
  return (
    <div id="daily" class="plot" ref={plot} aria-label={chart.summary} {...handlers.plot}>
      {width !== undefined && (
        <Bars chart={chart} scale={scaleOf(chart, Math.max(280, width))} point={handlers.point} />
      )}
    </div>
  );
}

/** A `ref` for an element, and its width; undefined before layout. */
function useWidth<Measured extends HTMLElement>(): [RefObject<Measured>, number | undefined] {
  const element = useRef<Measured>(null);
  const [width, setWidth] = useState<number>();
  useLayoutEffect(() => {
    const measured = element.current;
    if (!measured) return undefined;
    const measure = (): void => {
      if (measured.clientWidth > 0) setWidth(measured.clientWidth);
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(measured);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}

function scaleOf({ days, totals, unit }: DailyChart, width: number): Scale {
  const amounts = ticks(Math.max(...totals));
  const max = amounts.at(-1) || 1;
  const y = (amount: number): number => HEIGHT - BOTTOM - (amount / max) * (HEIGHT - TOP - BOTTOM);
  const marks = amounts.map((amount) => ({ y: y(amount), label: writeMark(amount, amounts[1] ?? 0, unit) }));
  const left = 14 + 7 * Math.max(...marks.map(({ label }) => label.length));
  return { width, left, step: (width - left) / days.length, marks, y };
}

interface BarsProps {
  readonly chart: DailyChart;
  readonly scale: Scale;
  readonly point: ReturnType<typeof usePoints>['point'];
}

function Bars({ chart, scale, point }: BarsProps): JSX.Element {
  const { width, left, step, marks } = scale;
  return (
    <svg width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} aria-hidden="true">
      {marks.map(({ y, label }) => (
        <g key={label}>
          <line class="grid" x1={left} x2={width} y1={y} y2={y} />
          <text class="tick" x={left - 8} y={y + 4} text-anchor="end">
            {label}
          </text>
        </g>
      ))}
      {chart.days.map((day, i) => (
        <g key={day} class="column" {...point(i)}>
          <rect
            class="band"
            x={left + i * step}
            y={TOP - 8}
            width={step}
            height={HEIGHT - TOP - BOTTOM + 8}
            rx={3}
          />
          {barSegments(chart, i, scale).map(({ tone, d }) => (
            <path key={tone} class={tone} d={d} />
          ))}
        </g>
      ))}
      <DayLabels days={chart.days} scale={scale} />
    </svg>
  );
}

function DayLabels({
  days,
  scale,
}: {
  readonly days: readonly string[];
  readonly scale: Scale;
}): JSX.Element {
  const { width, left, step } = scale;
  const every = Math.ceil(56 / step);
  const last = days.length - 1;
  return (
    <>
      {days.map((day, i) =>
        (last - i) % every === 0 ? (
          <text
            key={day}
            class="tick"
            x={Math.min(left + (i + 0.5) * step, width - 18)}
            y={HEIGHT - 8}
            text-anchor="middle"
          >
            {i === last ? 'Today' : shortDay(day)}
          </text>
        ) : undefined,
      )}
    </>
  );
}

/** The segments of a day's bar, from the bottom up. */
function barSegments(
  { series }: DailyChart,
  day: number,
  { left, step, y }: Scale,
): { readonly tone: string; readonly d: string }[] {
  const thick = Math.max(1, Math.min(56, step * 0.72));
  const x = left + day * step + (step - thick) / 2;
  let below = 0;
  const drawn = series.filter(({ values }) => (values[day] ?? 0) > 0);
  return drawn.map(({ tone, values }, i) => {
    const bottom = y(below);
    below += values[day] ?? 0;
    // A gap separates segments whose colors look alike to color-blind readers.
    const gap = i === 0 || bottom - y(below) < 3 ? 0 : 1;
    const height = Math.max(0.5, bottom - gap - y(below));
    return { tone, d: segmentPath(x, bottom - gap - height, thick, height, i === drawn.length - 1) };
  });
}

/** The SVG path of a segment; the topmost one has rounded corners. */
function segmentPath(x: number, y: number, width: number, height: number, isTop: boolean): string {
  const r = isTop ? Math.min(3, width / 2, height) : 0;
  return `M${x} ${y + height}V${y + r}q0 ${-r} ${r} ${-r}h${width - 2 * r}q${r} 0 ${r} ${r}V${y + height}z`;
}
