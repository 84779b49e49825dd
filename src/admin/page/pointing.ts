import type { Browser, BrowserElement } from './browser.ts';
import type { Child, Elements } from './elements.ts';

export interface Fact {
  readonly name: string;
  readonly value: string;
  /** Class of the color that stands for it. */
  readonly tone?: string;
}

/** What the tooltip tells of a point. */
export interface Told {
  readonly title: string;
  readonly headline: string;
  /** What the headline is made of. */
  readonly parts: readonly Fact[];
  readonly facts: readonly Fact[];
}

/** One thing of a plot that can be pointed at, or reached with the arrow keys. */
export interface Point extends Told {
  readonly element: BrowserElement;
}

/** Shows what is known of the point under the pointer, or under the keyboard: then it is said aloud too. */
export interface Pointing {
  /** Makes a plot one stop of the Tab key, in which the arrow keys go from point to point, at first to `start`. */
  explore(id: string, points: readonly Point[], start: number): void;
}

/** Runs in the browser: its text is inlined, so that it may name nothing outside of itself. */
export function createPointing(browser: Browser, { html, get }: Elements): Pointing {
  const plots = new Map<string, { points: readonly Point[]; at: number }>();

  const list = (facts: readonly Fact[]): Child =>
    facts.length > 0 &&
    html(
      'dl',
      {},
      ...facts.flatMap(({ name, value, tone }) => [
        html('dt', {}, tone !== undefined && html('i', { class: `swatch ${tone}` }), name),
        html('dd', {}, value),
      ]),
    );

  function show({ element, title, headline, parts, facts }: Point): void {
    const tooltip = get('tooltip');
    const lists = [list(parts), list(facts)].filter((list) => list !== undefined && list !== false);
    tooltip.replaceChildren(html('p', {}, html('strong', {}, title), html('strong', {}, headline)), ...lists);
    tooltip.hidden = false;
    const box = element.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = tooltip;
    const page = browser.document.documentElement;
    const right = box.left + box.width + 10;
    const left = box.left - width - 10;
    const beside = right + width < page.clientWidth - 8 ? right : left > 8 ? left : undefined;
    const top = beside === undefined ? box.top - height - 8 : box.top + 8;
    tooltip.style.left = `${beside ?? Math.max(8, box.left + (box.width - width) / 2)}px`;
    tooltip.style.top = `${Math.max(8, Math.min(top, page.clientHeight - height - 8))}px`;
  }

  /** Marks a point and tells of it, or of none. */
  function visit(id: string, index: number | undefined, aloud = false): void {
    const plot = plots.get(id);
    if (!plot) return;
    plot.points.forEach(({ element }, i) => element.toggleAttribute('data-on', i === index));
    const point = index === undefined ? undefined : plot.points[index];
    if (!point || index === undefined) {
      get('tooltip').hidden = true;
      return;
    }
    plot.at = index;
    show(point);
    if (!aloud) return;
    const facts = [...point.parts, ...point.facts].map(({ name, value }) => `${name} ${value}`);
    get('spoken').textContent = `${point.title}, ${point.headline}: ${facts.join(', ')}`;
  }

  function listen(id: string): void {
    const plot = get(id);
    plot.addEventListener('focus', () => visit(id, plots.get(id)?.at, true));
    plot.addEventListener('blur', () => visit(id, undefined));
    plot.addEventListener('keydown', (event) => {
      const { at, points } = plots.get(id) ?? { at: 0, points: [] };
      const [before, after] = [Math.max(0, at - 1), Math.min(points.length - 1, at + 1)];
      const places: Readonly<Record<string, number>> = {
        ArrowLeft: before,
        ArrowUp: before,
        ArrowRight: after,
        ArrowDown: after,
        Home: 0,
        End: points.length - 1,
      };
      const index = places[event.key];
      if (event.key === 'Escape') visit(id, undefined);
      if (index === undefined) return;
      event.preventDefault();
      visit(id, index, true);
    });
  }

  return {
    explore(id, points, start) {
      points.forEach(({ element }, i) => {
        element.addEventListener('pointerenter', () => visit(id, i));
        element.addEventListener('pointerleave', () => visit(id, undefined));
      });
      const before = plots.get(id);
      plots.set(id, { points, at: Math.min(before?.at ?? start, points.length - 1) });
      get('tooltip').hidden = true;
      if (!before) listen(id);
    },
  };
}
