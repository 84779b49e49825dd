import type { ComponentChildren, JSX } from 'preact';

/** A name and what is known of it; a fact that isn't known is left out. */
export type Fact = readonly [name: string, value: ComponentChildren];

export function Facts({ facts }: { readonly facts: readonly Fact[] }): JSX.Element {
  return (
    <dl class="facts">
      {facts
        .filter(([, value]) => value !== undefined && value !== '')
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
