import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

/** Nothing where the browser has no clipboard: it has one only on HTTPS and localhost. */
export function CopyButton({ text }: { readonly text: string }): JSX.Element | null {
  const [isCopied, setCopied] = useState(false);
  // oxlint-disable-next-line typescript/no-unnecessary-condition -- missing on plain HTTP
  if (!navigator.clipboard) return null;
  return (
    <button
      type="button"
      class="plain"
      onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}
    >
      {isCopied ? 'Copied' : 'Copy'}
    </button>
  );
}
