import type { JSX } from 'preact';

export interface FilterChipProps {
  readonly name: string;
  readonly value: string;
  /** The address without the filter. */
  readonly href: string;
}

/** A filter that is on; the link takes it away. */
export function FilterChip({ name, value, href }: FilterChipProps): JSX.Element {
  return (
    <a class="filter" aria-label={`Remove the filter ${name}`} href={href}>
      <span>{`${name}: ${value}`}</span> <span aria-hidden="true">×</span>
    </a>
  );
}
