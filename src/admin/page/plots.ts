import type { Browser, BrowserElement } from './browser.ts';
import type { Child, Elements } from './elements.ts';
import type { Figures } from './figures.ts';
import type { Pointing, Told } from './pointing.ts';

export interface Series {
  readonly name: string;
  readonly tone: string;
  /** One for each day. */
  readonly values: readonly number[];
}

export interface DailyBars {
  readonly days: readonly string[];
  /** From the bottom up. */
  readonly series: readonly Series[];
  /** What the plot says, for those who don't see it. */
  readonly summary: string;
  /** Writes a mark of the axis; the marks are `distance` apart. */
  axis(value: number, distance: number): string;
  /** What is told of a day, but its name. */
  told(dayIndex: number): Omit<Told, 'title'>;
}

export interface Rank {
  readonly name: string;
  /** Said in a fainter voice after the name. */
  readonly detail?: string;
  readonly tone: string;
  readonly share: number;
  readonly value: string;
  readonly note: string;
  readonly told: Omit<Told, 'title'>;
}

/** Draws plots as SVG: each is one stop of the Tab key, in which the arrow keys go from point to point. */
export interface Plots {
  daily(id: string, bars: DailyBars): void;
  ranking(id: string, summary: string, ranks: readonly Rank[]): void;
  /** A line of days, without axes. */
  trend(values: readonly number[]): BrowserElement;
}

/** Runs in the browser: its text is inlined, so that it may name nothing outside of itself. */
export function createPlots(
  browser: Browser,
  elements: Elements,
  figures: Figures,
  pointing: Pointing,
): Plots {
  const { html, svg, get } = elements;
  const HEIGHT = 264;
  const TOP = 12;
  const BOTTOM = 28;
  const redraw = new Map<string, () => void>();

  /** A bar's piece; the topmost has round shoulders. */
  function piece(x: number, y: number, width: number, height: number, round: boolean): string {
    const r = round ? Math.min(3, width / 2, height) : 0;
    return `M${x} ${y + height}V${y + r}q0 ${-r} ${r} ${-r}h${width - 2 * r}q${r} 0 ${r} ${r}V${y + height}z`;
  }

  function drawDaily(id: string, bars: DailyBars): void {
    const plot = get(id);
    const width = Math.max(280, plot.clientWidth);
    const totals = bars.days.map((_, i) =>
      bars.series.reduce((sum, { values }) => sum + (values[i] ?? 0), 0),
    );
    const ticks = figures.ticks(Math.max(...totals));
    const most = ticks.at(-1) || 1;
    const labels = ticks.map((tick) => bars.axis(tick, ticks[1] ?? 0));
    const left = 14 + 7 * Math.max(...labels.map((label) => label.length));
    const step = (width - left) / bars.days.length;
    const thick = Math.max(1, Math.min(56, step * 0.72));
    const y = (value: number): number => HEIGHT - BOTTOM - (value / most) * (HEIGHT - TOP - BOTTOM);

    const grid = ticks.flatMap((tick, i) => [
      svg('line', { class: 'grid', x1: left, x2: width, y1: y(tick), y2: y(tick) }),
      svg('text', { class: 'tick', x: left - 8, y: y(tick) + 4, 'text-anchor': 'end' }, labels[i]),
    ]);
    const every = Math.ceil(56 / step);
    const last = bars.days.length - 1;
    const dayLabels = bars.days.map((day, i) => {
      if ((last - i) % every !== 0) return undefined;
      const x = Math.min(left + (i + 0.5) * step, width - 18);
      const name = i === last ? 'Today' : figures.day(day);
      return svg('text', { class: 'tick', x, y: HEIGHT - 8, 'text-anchor': 'middle' }, name);
    });
    const columns = bars.days.map((_, i) => {
      const x = left + i * step + (step - thick) / 2;
      let below = 0;
      const drawn = bars.series.filter(({ values }) => (values[i] ?? 0) > 0);
      const pieces: Child[] = drawn.map(({ tone, values }, place) => {
        const bottom = y(below);
        below += values[i] ?? 0;
        // A line of the surface keeps neighbors apart, for those to whom their colors look alike.
        const gap = place === 0 || bottom - y(below) < 3 ? 0 : 1;
        const height = Math.max(0.5, bottom - gap - y(below));
        const d = piece(x, bottom - gap - height, thick, height, place === drawn.length - 1);
        return svg('path', { class: tone, d });
      });
      const band = svg('rect', {
        class: 'band',
        x: left + i * step,
        y: TOP - 8,
        width: step,
        height: HEIGHT - TOP - BOTTOM + 8,
        rx: 3,
      });
      return svg('g', { class: 'column' }, band, ...pieces);
    });
    plot.setAttribute('aria-label', bars.summary);
    plot.replaceChildren(
      svg(
        'svg',
        { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, 'aria-hidden': 'true' },
        ...grid,
        ...columns,
        ...dayLabels,
      ),
    );
    const points = columns.map((element, i) => ({
      element,
      title: figures.longDay(bars.days[i] ?? ''),
      ...bars.told(i),
    }));
    pointing.explore(id, points, last);
  }

  return {
    daily(id, bars) {
      if (!redraw.has(id)) {
        let width = get(id).clientWidth;
        new browser.ResizeObserver(() => {
          if (get(id).clientWidth === width || get(id).clientWidth === 0) return;
          width = get(id).clientWidth;
          redraw.get(id)?.();
        }).observe(get(id));
      }
      redraw.set(id, () => drawDaily(id, bars));
      drawDaily(id, bars);
    },

    ranking(id, summary, ranks) {
      const rows = ranks.map(({ name, detail, tone, share, value, note }) =>
        html(
          'div',
          { class: 'rank' },
          html('span', { class: 'name' }, name, ' ', detail && html('small', {}, detail)),
          html('span', { class: 'note number' }, note),
          html('span', { class: 'value number' }, value),
          svg(
            'svg',
            { class: 'track', width: '100%', height: 6, 'aria-hidden': 'true' },
            svg('rect', { class: 'rail', width: '100%', height: 6, rx: 3 }),
            svg('rect', { class: tone, width: `${Math.max(0.6, share * 100)}%`, height: 6, rx: 3 }),
          ),
        ),
      );
      get(id).setAttribute('aria-label', summary);
      get(id).replaceChildren(...rows);
      const points = ranks.map(({ name, told }, i) => ({
        element: rows[i] ?? get(id),
        title: name,
        ...told,
      }));
      pointing.explore(id, points, 0);
    },

    trend(values) {
      const most = Math.max(...values, 1e-9);
      const step = 96 / Math.max(1, values.length - 1);
      const line = values.map((value, i) => `${i * step} ${23 - (value / most) * 21}`).join('L');
      return svg(
        'svg',
        { class: 'trend', width: 96, height: 24, viewBox: '0 0 96 24', 'aria-hidden': 'true' },
        svg('path', { class: 'under', d: `M0 24L${line}L96 24z` }),
        svg('path', { class: 'line', d: `M${line}` }),
      );
    },
  };
}
