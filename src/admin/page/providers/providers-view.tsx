import type { JSX } from 'preact';

import type { Providers as ProviderList } from '../../../client/admin-api.generated.ts';
import { Frame } from '../frame.tsx';
import { useResource } from '../resource.ts';
import type { ViewProps } from '../view-props.ts';
import { ProviderCard } from './provider-card.tsx';

const REFRESH_MS = 3000;

/** What this process knows of its providers: state, speed, errors, keys; and what an operator may do. */
export function ProvidersView({ session }: ViewProps): JSX.Element {
  const { data, at, notice, reload } = useResource<ProviderList>(session, {
    subject: 'providers',
    everyMs: REFRESH_MS,
    ask: () => session.api.get('providers'),
  });
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
          {data.data.map((provider) => (
            <ProviderCard
              key={provider.name}
              provider={provider}
              at={at}
              change={async (what, body, key) => {
                const path = `providers/${encodeURIComponent(provider.name)}/${what}`;
                await session.api.change('POST', path, body, key);
                await reload();
              }}
            />
          ))}
          {data.data.length === 0 && <p class="nothing">There are no providers.</p>}
        </div>
      )}
    </Frame>
  );
}
