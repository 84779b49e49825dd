import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { ApiKeyDetails } from '../../../client/admin-api.generated.ts';
import { Facts } from '../../../page/facts.tsx';
import { Frame } from '../frame.tsx';
import { useResource } from '../../../page/resource.ts';
import { hrefOf } from '../../../page/route.ts';
import type { Session } from '../session.ts';
import { keysPath } from './key-address.ts';
import { actionsOf, type ChosenAction } from '../../../page/keys/key-actions.ts';
import { KeyDialogs } from '../../../page/keys/key-dialogs.tsx';
import { keyFacts } from '../../../page/keys/key-facts.tsx';
import { KeyActions, KeyState } from '../../../page/keys/key-table.tsx';

const REFRESH_MS = 10_000;

export interface KeyViewProps {
  readonly session: Session;
  readonly account: string;
  readonly id: string;
}

/** One key: its limits, what is left of them, and what an operator may change. */
export function KeyView({ session, account, id }: KeyViewProps): JSX.Element {
  const [chosen, setChosen] = useState<ChosenAction>();
  const { data, notice, reload } = useResource<ApiKeyDetails>(session, {
    subject: `${account} ${id}`,
    everyMs: REFRESH_MS,
    ask: () => session.api.get(`${keysPath(account)}/${encodeURIComponent(id)}`),
  });
  return (
    <Frame name="keys" title="Key" session={session} notice={notice}>
      {data && (
        <div id="report">
          <p>
            <a href={hrefOf('accounts', account)}>{account}</a> ·{' '}
            <a href={hrefOf('requests', undefined, { account, key: id })}>Requests</a>
          </p>
          <section class="card" aria-labelledby="key-title">
            <div class="title">
              <h2 id="key-title">
                {data.name || data.id} <KeyState of={data} />
              </h2>
              {session.may('keys') && (
                <div class="controls">
                  <KeyActions
                    of={data}
                    actions={actionsOf(data)}
                    choose={(action) => setChosen({ action, path: keysPath(account), key: data })}
                  />
                </div>
              )}
            </div>
            <Facts facts={keyFacts(data, 'Held')} />
          </section>
          <KeyDialogs api={session.api} chosen={chosen} close={() => setChosen(undefined)} reload={reload} />
        </div>
      )}
    </Frame>
  );
}
