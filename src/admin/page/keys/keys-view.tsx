import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';

import type { ApiKey, ApiKeys } from '../../../client/admin-api.generated.ts';
import { asApiError } from '../../../page/api.ts';
import { Frame } from '../frame.tsx';
import { hrefOf } from '../../../page/route.ts';
import type { Session } from '../session.ts';
import type { ViewProps } from '../view-props.ts';
import { actionsOf, type ChosenAction } from '../../../page/keys/key-actions.ts';
import { KeyDialogs } from '../../../page/keys/key-dialogs.tsx';
import { KeyTable } from '../../../page/keys/key-table.tsx';
import { keyHref, keysPath } from './key-address.ts';
import { KeyView } from './key-view.tsx';

/** Finds keys by a secret or an ID, or shows one of them. */
export function KeysView({ session, route: { id, query } }: ViewProps): JSX.Element {
  const account = query.get('account');
  if (id !== undefined && account !== null) return <KeyView session={session} account={account} id={id} />;
  return (
    <Frame name="keys" title="Keys" session={session}>
      {session.canAsk ? <FindKey session={session} /> : undefined}
    </Frame>
  );
}

interface Found {
  /** In memory only: it may be a secret. */
  readonly asked: string;
  readonly keys: readonly ApiKey[];
}

function FindKey({ session }: { readonly session: Session }): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  const [found, setFound] = useState<Found>();
  const [failure, setFailure] = useState<string>();
  const [chosen, setChosen] = useState<ChosenAction>();

  const searches = useRef(0);

  async function find(asked: string): Promise<void> {
    searches.current += 1;
    const search = searches.current;
    try {
      // In the body, so that no URL has the secret.
      const { data } = await session.api.change<ApiKeys>('POST', 'keys/find', { key: asked });
      if (search !== searches.current) return;
      setFound({ asked, keys: data });
      setFailure(undefined);
      if (input.current) input.current.value = '';
    } catch (thrown) {
      if (search === searches.current) setFailure(asApiError(thrown).message);
    }
  }

  return (
    <div id="report">
      <section class="card" aria-labelledby="find-title">
        <div class="title">
          <h2 id="find-title">Find a key</h2>
        </div>
        <form
          id="find-key"
          class="find"
          onSubmit={(event) => {
            event.preventDefault();
            const asked = input.current?.value.trim() ?? '';
            if (asked !== '') void find(asked);
          }}
        >
          <label htmlFor="key-secret">Secret or ID</label>
          <input id="key-secret" ref={input} type="password" autocomplete="off" spellcheck={false} required />
          <button type="submit" class="primary small">
            Find
          </button>
        </form>
        <p class="notice bad" role="alert" hidden={failure === undefined}>
          {failure}
        </p>
        <p class="faint">
          A secret that was found somewhere, or the ID of a key, in any account. It is sent in the body of the
          request, and is not in the address. The keys of one account are at its{' '}
          <a href={hrefOf('accounts')}>account</a>.
        </p>
      </section>
      {found && (
        <section class="card" aria-label="Found keys" role="status">
          <KeyTable
            keys={found.keys}
            hrefOf={keyHref}
            accountOf={accountLink}
            actionsOf={actionsOf}
            none="No key has this secret or ID, or it was rotated since."
            choose={
              session.may('keys')
                ? (action, key) => setChosen({ action, path: keysPath(key.account), key })
                : undefined
            }
          />
        </section>
      )}
      <KeyDialogs
        api={session.api}
        chosen={chosen}
        close={() => setChosen(undefined)}
        reload={async () => {
          if (found) await find(found.asked);
        }}
      />
    </div>
  );
}

function accountLink({ account }: ApiKey): JSX.Element {
  return <a href={hrefOf('accounts', account)}>{account}</a>;
}
