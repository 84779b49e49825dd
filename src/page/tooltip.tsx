import { type ComponentChildren, createContext, Fragment, type JSX } from 'preact';
import { useCallback, useContext, useLayoutEffect, useRef, useState } from 'preact/hooks';

export interface Fact {
  readonly name: string;
  readonly value: string;
  /** Class of its color. */
  readonly tone?: string;
}

/** Content of the tooltip of a point. */
export interface PointDetails {
  readonly title: string;
  readonly headline: string;
  /** Parts of the headline's total. */
  readonly parts: readonly Fact[];
  readonly facts: readonly Fact[];
}

interface Shown {
  readonly details: PointDetails;
  /** The tooltip is placed beside it. */
  readonly anchor: Element;
  /** Announced by a screen reader as well. */
  readonly isSpoken: boolean;
}

type Show = (shown: Shown | undefined) => void;

const ShowTooltip = createContext<Show>(() => {});

/** Renders one tooltip for all plots below it, and announces the points that are reached by keyboard. */
export function TooltipProvider({ children }: { readonly children: ComponentChildren }): JSX.Element {
  const [shown, setShown] = useState<Shown>();
  const [spoken, setSpoken] = useState('');
  const show = useCallback((shown: Shown | undefined) => {
    setShown(shown);
    if (shown?.isSpoken) setSpoken(spokenText(shown.details));
  }, []);
  return (
    <>
      <ShowTooltip.Provider value={show}>{children}</ShowTooltip.Provider>
      <Tooltip shown={shown} />
      <div id="spoken" class="unseen" aria-live="polite">
        {spoken}
      </div>
    </>
  );
}

function spokenText({ title, headline, parts, facts }: PointDetails): string {
  return `${title}, ${headline}: ${[...parts, ...facts].map(({ name, value }) => `${name} ${value}`).join(', ')}`;
}

function Tooltip({ shown }: { readonly shown: Shown | undefined }): JSX.Element {
  const tooltip = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (shown && tooltip.current) placeBeside(shown.anchor, tooltip.current);
  }, [shown]);
  return (
    <div id="tooltip" class="tooltip" ref={tooltip} hidden={!shown}>
      {shown && (
        <>
          <p>
            <strong>{shown.details.title}</strong>
            <strong>{shown.details.headline}</strong>
          </p>
          <Facts facts={shown.details.parts} />
          <Facts facts={shown.details.facts} />
        </>
      )}
    </div>
  );
}

function Facts({ facts }: { readonly facts: readonly Fact[] }): JSX.Element | null {
  if (facts.length === 0) return null;
  return (
    <dl>
      {facts.map(({ name, value, tone }) => (
        <Fragment key={name}>
          <dt>
            {tone !== undefined && <i class={`swatch ${tone}`} />}
            {name}
          </dt>
          <dd>{value}</dd>
        </Fragment>
      ))}
    </dl>
  );
}

/** To the right of the anchor, else to its left, else above it. */
function placeBeside(anchor: Element, tooltip: HTMLElement): void {
  const { left, top, width: anchorWidth } = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = tooltip;
  const { clientWidth, clientHeight } = document.documentElement;
  const onTheRight = left + anchorWidth + 10;
  const onTheLeft = left - width - 10;
  const beside = onTheRight + width < clientWidth - 8 ? onTheRight : onTheLeft > 8 ? onTheLeft : undefined;
  const y = beside === undefined ? top - height - 8 : top + 8;
  tooltip.style.left = `${beside ?? Math.max(8, left + (anchorWidth - width) / 2)}px`;
  tooltip.style.top = `${Math.max(8, Math.min(y, clientHeight - height - 8))}px`;
}

/** Attributes of a plot and its points: the plot is one tab stop, and arrow keys move between its points. */
export interface PointHandlers {
  readonly plot: JSX.HTMLAttributes<HTMLDivElement>;
  readonly point: (index: number) => {
    readonly ref: (element: Element | null) => void;
    readonly 'data-on': '' | undefined;
    readonly onPointerEnter: () => void;
    readonly onPointerLeave: () => void;
  };
}

/**
 * Shows the tooltip of the point under the pointer, or of the one reached by keyboard, which is announced as well.
 *
 * @param points memoized: a change hides the tooltip
 * @param start index of the first point for the keyboard
 */
export function usePoints(points: readonly PointDetails[], start: number): PointHandlers {
  const show = useContext(ShowTooltip);
  const elements = useRef<(Element | null)[]>([]);
  const at = useRef(start);
  const [active, setActive] = useState<number>();

  function visit(index: number | undefined, isSpoken = false): void {
    const details = index === undefined ? undefined : points[index];
    const anchor = index === undefined ? undefined : elements.current[index];
    setActive(index);
    show(details && anchor ? { details, anchor, isSpoken } : undefined);
    if (details) at.current = index ?? start;
  }

  useLayoutEffect(() => {
    at.current = Math.min(at.current, points.length - 1);
    setActive(undefined);
    show(undefined);
  }, [points, show]);

  return {
    plot: {
      role: 'group',
      tabIndex: 0,
      onFocus: () => visit(at.current, true),
      onBlur: () => visit(undefined),
      onKeyDown: (event) => {
        if (event.key === 'Escape') visit(undefined);
        const index = indexAfter(event.key, at.current, points.length - 1);
        if (index === undefined) return;
        event.preventDefault();
        visit(index, true);
      },
    },
    point: (index) => ({
      ref: (element) => {
        elements.current[index] = element;
      },
      'data-on': index === active ? '' : undefined,
      onPointerEnter: () => visit(index),
      onPointerLeave: () => visit(undefined),
    }),
  };
}

/** Index of the point that a key moves to; undefined for other keys. */
function indexAfter(key: string, at: number, last: number): number | undefined {
  if (key === 'ArrowLeft' || key === 'ArrowUp') return Math.max(0, at - 1);
  if (key === 'ArrowRight' || key === 'ArrowDown') return Math.min(last, at + 1);
  if (key === 'Home') return 0;
  return key === 'End' ? last : undefined;
}
