import type { JSX } from 'preact';

import type { Api } from './api.ts';
import { useSession } from './session.ts';
import { TooltipProvider } from './tooltip.tsx';
import { UsageView } from './usage/usage-view.tsx';

/** The page. Add another view beside `UsageView`, in its own `Frame`, with the same session. */
export function App({ api }: { readonly api: Api }): JSX.Element {
  const session = useSession(api);
  return (
    <TooltipProvider>
      <UsageView session={session} />
    </TooltipProvider>
  );
}
