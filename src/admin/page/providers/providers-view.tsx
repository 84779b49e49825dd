import type { JSX } from 'preact';

import type { Providers as ProviderList } from '../../../client/admin-api.generated.ts';
import { Frame } from '../frame.tsx';
import { useResource } from '../../../page/resource.ts';
import type { ViewProps } from '../view-props.ts';
import { type Change, ProviderCard } from './provider-card.tsx';
import { WaitingCard } from './waiting-card.tsx';

const REFRESH_MS = 3000;

/** What this process knows of its providers: state, speed, errors, keys, limits, who waits; and what an operator may do. */
export function ProvidersView({ session }: ViewProps): JSX.Element {
  const { data, at, notice, reload } = useResource<ProviderList>(session, {
    subject: 'providers',
    everyMs: REFRESH_MS,
    ask: () => session.api.get('providers'),
  });
  const changeOf =
    (name: string): Change =>
    async (what, body, key) => {
      await session.api.change('POST', `providers/${encodeURIComponent(name)}/${what}`, body, key);
      await reload();
    };
  return (
    <Frame
      name="providers"
      title="Providers"
      session={session}
      notice={notice}
      status="as the process that answers sees them"
    >
      {data && (
        <div id="report">
          {data.waiting.length > 0 && <WaitingCard lines={data.waiting} />}
          {data.data.map((provider) => (
            <ProviderCard
              key={provider.name}
              provider={provider}
              at={at}
              change={session.may('providers') ? changeOf(provider.name) : undefined}
            />
          ))}
          {data.data.length === 0 && <p class="nothing">There are no providers.</p>}
        </div>
      )}
    </Frame>
  );
}
