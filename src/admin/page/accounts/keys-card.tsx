import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { ApiKey } from '../../../client/admin-api.generated.ts';
import type { ChosenAction } from '../keys/key-actions.ts';
import { KeyDialogs } from '../keys/key-dialogs.tsx';
import { KeyTable } from '../keys/key-table.tsx';
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
            onClick={() => setChosen({ action: 'create', account })}
          >
            New key
          </button>
        )}
      </div>
      <KeyTable keys={keys} none="There are no keys yet." choose={mayChange ? setChosen : undefined} />
      <KeyDialogs session={session} chosen={chosen} close={() => setChosen(undefined)} reload={reload} />
    </section>
  );
}
