import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';

import { useRoute } from '../../page/route.ts';
import { usePageSession } from '../../page/session.ts';
import { TooltipProvider } from '../../page/tooltip.tsx';
import type { Me } from './api-rows.ts';
import { Frame, Welcome } from './frame.tsx';
import { Conversation } from './playground/conversation.ts';
import type { Site } from './site.ts';
import { VIEWS } from './views.ts';

/** The customers' page: one view at a time, chosen by the address, with one session. */
export function App({ site }: { readonly site: Site }): JSX.Element {
  const session = usePageSession<Me>(site.api);
  const route = useRoute();
  const { me, prompt } = session;
  const conversation = useMemo(() => new Conversation(site.api), [site, me?.account]);
  const shown = me ? VIEWS.filter(({ needs }) => session.may(needs)) : [];
  const current = shown.find(({ name }) => name === route.view) ?? shown[0];
  return (
    <TooltipProvider>
      <Frame site={site} session={session} views={shown} current={current?.name}>
        {me && current && prompt === undefined ? (
          <current.View
            key={`${current.name}/${route.id ?? ''}`}
            session={session}
            me={me}
            route={route}
            conversation={conversation}
          />
        ) : (
          <Welcome site={site} session={session} />
        )}
      </Frame>
    </TooltipProvider>
  );
}
