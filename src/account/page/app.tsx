import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { useRoute } from '../../page/route.ts';
import { usePageSession } from '../../page/session.ts';
import { TooltipProvider } from '../../page/tooltip.tsx';
import type { Holder } from '../../client/admin-api.generated.ts';
import { Frame, Welcome } from './frame.tsx';
import { Conversation } from './playground/conversation.ts';
import type { Site } from './site.ts';
import type { ViewProps } from './view-props.ts';
import { type ViewEntry, VIEWS } from './views.ts';

/** The customers' page: one view at a time, chosen by the address, with one session. */
export function App({ site }: { readonly site: Site }): JSX.Element {
  const session = usePageSession<Holder>(site.api);
  const route = useRoute();
  const { me, prompt } = session;
  const shown = me ? VIEWS.filter(({ needs }) => session.may(needs)) : [];
  const current = shown.find(({ name }) => name === route.view) ?? shown[0];
  return (
    <TooltipProvider>
      <Frame site={site} session={session} views={shown} current={current?.name}>
        {me && current && prompt === undefined ? (
          <SignedIn key={me.account} view={current} session={session} me={me} route={route} />
        ) : (
          <Welcome site={site} session={session} />
        )}
      </Frame>
    </TooltipProvider>
  );
}

/** What is of one account, and gone with its session. */
function SignedIn({
  view: { name, View },
  ...props
}: Omit<ViewProps, 'conversation'> & { readonly view: ViewEntry }): JSX.Element {
  const [conversation] = useState(() => new Conversation(props.session.api));
  useEffect(() => () => conversation.stop(), [conversation]);
  return <View key={`${name}/${props.route.id ?? ''}`} {...props} conversation={conversation} />;
}
