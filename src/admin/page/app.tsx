import type { JSX } from 'preact';

import type { Api } from '../../page/api.ts';
import { useRoute } from '../../page/route.ts';
import type { Me } from '../../client/admin-api.generated.ts';
import { usePageSession } from '../../page/session.ts';
import { TooltipProvider } from '../../page/tooltip.tsx';
import { VIEWS } from './views.ts';

/** The console: one view at a time, chosen by the address, with one session. */
export function App({ api }: { readonly api: Api }): JSX.Element {
  const session = usePageSession<Me>(api);
  const route = useRoute();
  const { View } = VIEWS.find(({ name }) => name === route.view) ?? VIEWS[0];
  return (
    <TooltipProvider>
      {/* Nothing of a view is left once the session has ended. */}
      <View key={`${route.view}/${route.id ?? ''} ${session.canAsk}`} session={session} route={route} />
    </TooltipProvider>
  );
}
