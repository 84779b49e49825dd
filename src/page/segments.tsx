import type { ComponentChildren, JSX } from 'preact';

export interface Segment<Value> {
  readonly value: Value;
  readonly content: ComponentChildren;
  /** Accessible name, if the content isn't enough. */
  readonly label?: string;
}

export interface SegmentsProps<Value> {
  /** Prefix of the buttons' ids. */
  readonly id: string;
  readonly label: string;
  readonly segments: readonly Segment<Value>[];
  readonly value: Value;
  readonly choose: (value: Value) => void;
  readonly small?: boolean;
}

/** A group of buttons, exactly one of which is pressed. */
export function Segments<Value extends string | number>(props: SegmentsProps<Value>): JSX.Element {
  const { id, label, segments, value: chosen, choose, small = false } = props;
  return (
    <div class={small ? 'segments small' : 'segments'} role="group" aria-label={label}>
      {segments.map(({ value, content, label }) => (
        <button
          key={value}
          type="button"
          id={`${id}-${value}`}
          aria-label={label}
          aria-pressed={value === chosen}
          onClick={() => choose(value)}
        >
          {content}
        </button>
      ))}
    </div>
  );
}
