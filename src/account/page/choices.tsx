import type { JSX } from 'preact';

export interface ChoicesProps {
  readonly label: string;
  readonly choices: readonly { readonly text: string; readonly href: string; readonly isCurrent: boolean }[];
}

/** Links of which one is where the address is. */
export function Choices({ label, choices }: ChoicesProps): JSX.Element {
  return (
    <div class="choices" role="group" aria-label={label}>
      {choices.map(({ text, href, isCurrent }) => (
        <a key={text} href={href} aria-current={isCurrent ? 'true' : undefined}>
          {text}
        </a>
      ))}
    </div>
  );
}
