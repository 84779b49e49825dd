import type { JSX } from 'preact';

/** A sparkline over days. */
export function Trend({ values }: { readonly values: readonly number[] }): JSX.Element {
  const max = Math.max(...values, 1e-9);
  const step = 96 / Math.max(1, values.length - 1);
  const line = values.map((value, i) => `${i * step} ${23 - (value / max) * 21}`).join('L');
  return (
    <svg class="trend" width={96} height={24} viewBox="0 0 96 24" aria-hidden="true">
      <path class="under" d={`M0 24L${line}L96 24z`} />
      <path class="line" d={`M${line}`} />
    </svg>
  );
}
