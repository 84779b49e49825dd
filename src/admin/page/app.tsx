import type { JSX } from 'preact';

import type { Api } from './api.ts';
import { useSession } from './session.ts';
import { TooltipProvider } from './tooltip.tsx';
import { UsageView } from './usage/usage-view.tsx';

/** The page. Another view stands beside `UsageView`, in a `Frame` of its own, with the same session. */
export function App({ api }: { readonly api: Api }): JSX.Element {
  const session = useSession(api);
  return (
    <TooltipProvider>
      <UsageView session={session} />
    </TooltipProvider>
  );
}
