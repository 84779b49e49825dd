import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { ApiKey } from '../../../client/admin-api.generated.ts';
import { actionsOf, type ChosenAction } from '../../../page/keys/key-actions.ts';
import { KeyDialogs } from '../../../page/keys/key-dialogs.tsx';
import { KeyTable } from '../../../page/keys/key-table.tsx';
import { keyHref, keysPath } from '../keys/key-address.ts';
import type { Session } from '../session.ts';

export interface KeysCardProps {
  readonly session: Session;
  readonly account: string;
  readonly keys: readonly ApiKey[];
  readonly reload: () => Promise<void>;
}

/** The API keys of an account. */
export function KeysCard({ session, account, keys, reload }: KeysCardProps): JSX.Element {
  const [chosen, setChosen] = useState<ChosenAction>();
  const path = keysPath(account);
  const mayChange = session.may('keys');
  return (
    <section class="card" aria-labelledby="keys-title">
      <div class="title">
        <h2 id="keys-title">API keys</h2>
        {mayChange && (
          <button
            type="button"
            id="create-key"
            class="plain"
            onClick={() => setChosen({ action: 'create', path })}
          >
            New key
          </button>
        )}
      </div>
      <KeyTable
        keys={keys}
        hrefOf={keyHref}
        none="There are no keys yet."
        actionsOf={actionsOf}
        choose={mayChange ? (action, key) => setChosen({ action, path, key }) : undefined}
      />
      <KeyDialogs api={session.api} chosen={chosen} close={() => setChosen(undefined)} reload={reload} />
    </section>
  );
}
