import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { actionsOf, type ChosenAction, type KeyAction } from '../../../page/keys/key-actions.ts';
import { KeyDialogs } from '../../../page/keys/key-dialogs.tsx';
import { keyFacts } from '../../../page/keys/key-facts.tsx';
import { KeyActions, KeyState, KeyTable } from '../../../page/keys/key-table.tsx';
import { Facts } from '../../../page/facts.tsx';
import { type Resource, useResource } from '../../../page/resource.ts';
import { hrefOf } from '../../../page/route.ts';
import type { CustomerKey, CustomerKeyDetails } from '../../../client/admin-api.generated.ts';
import { ViewBody } from '../view-body.tsx';
import type { ViewProps } from '../view-props.ts';

const REFRESH_MS = 10_000;
const PATH = 'keys';

/** The account's API keys, or one of them. */
export function KeysView({ session, me, route: { id } }: ViewProps): JSX.Element {
  return id === undefined ? (
    <KeyList session={session} me={me} />
  ) : (
    <OneKey session={session} id={id} me={me} />
  );
}

type KeyListProps = Pick<ViewProps, 'session' | 'me'>;

function KeyList({ session, me: { key: own, fixed_key_fields: fixed } }: KeyListProps): JSX.Element {
  const [chosen, setChosen] = useState<ChosenAction>();
  const { data, notice, reload } = useResource<readonly CustomerKey[]>(session, {
    subject: 'keys',
    everyMs: REFRESH_MS,
    ask: async () => (await session.api.list<CustomerKey>(PATH)).data,
  });
  const current = data?.find(({ id }) => id === own);
  return (
    <ViewBody
      title="API keys"
      about="A key is a password: keep it on your server, and give each app its own."
      notice={notice}
      controls={
        <button
          type="button"
          id="create-key"
          class="primary small"
          onClick={() => setChosen({ action: 'create', path: PATH, fixed })}
        >
          New key
        </button>
      }
    >
      {data && (
        <section class="card" aria-label="API keys">
          <KeyTable
            keys={data}
            hrefOf={({ id }) => hrefOf('keys', id)}
            none="There are no keys yet."
            actionsOf={ownActions}
            choose={(action, key) => setChosen({ action, path: PATH, key, fixed })}
          />
          {current && <p class="faint foot">{`You are signed in with ${current.name || current.id}.`}</p>}
          <KeyDialogs
            api={session.api}
            chosen={chosen}
            own={own}
            close={() => setChosen(undefined)}
            reload={reload}
          />
        </section>
      )}
    </ViewBody>
  );
}

/** Limits that the host has set stay as they are. */
function ownActions(key: CustomerKey): readonly KeyAction[] {
  return actionsOf(key).filter((action) => key.managed || action === 'rotate' || action === 'revoke');
}

function OneKey({ session, id, me }: KeyListProps & { readonly id: string }): JSX.Element {
  const resource = useResource<CustomerKeyDetails>(session, {
    subject: id,
    everyMs: REFRESH_MS,
    ask: () => session.api.get(`${PATH}/${encodeURIComponent(id)}`),
  });
  const { data, notice } = resource;
  return (
    <ViewBody
      title={data ? data.name || data.id : 'API key'}
      about={<a href={hrefOf('keys')}>All keys</a>}
      notice={notice}
    >
      {data && <KeyCard session={session} me={me} of={data} resource={resource} />}
    </ViewBody>
  );
}

interface KeyCardProps extends KeyListProps {
  readonly of: CustomerKeyDetails;
  readonly resource: Resource<CustomerKeyDetails>;
}

function KeyCard({ session, me, of: key, resource }: KeyCardProps): JSX.Element {
  const { key: own, fixed_key_fields: fixed } = me;
  const [chosen, setChosen] = useState<ChosenAction>();
  return (
    <section class="card" aria-label="Key">
      <div class="title">
        <p>
          <KeyState of={key} />
          {!key.managed && ' This key was made for you: its limits can’t be changed here.'}
        </p>
        <div class="controls">
          <KeyActions
            of={key}
            actions={ownActions(key)}
            choose={(action) => setChosen({ action, path: PATH, key, fixed })}
          />
        </div>
      </div>
      <Facts facts={keyFacts(key, 'In use')} />
      <p class="foot">
        <a href={hrefOf('requests', undefined, { key: key.id })}>Requests</a> ·{' '}
        <a href={hrefOf('usage', undefined, { key: key.id })}>Usage</a>
      </p>
      <KeyDialogs
        api={session.api}
        chosen={chosen}
        own={own}
        close={() => setChosen(undefined)}
        reload={resource.reload}
      />
    </section>
  );
}
