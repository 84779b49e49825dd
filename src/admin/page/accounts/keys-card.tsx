import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { ApiKey, CreatedApiKey } from '../../../client/admin-api.generated.ts';
import { Dialog, FormDialog, type FormDialogProps } from '../dialog.tsx';
import { moment } from '../format.ts';
import { hrefOf } from '../route.ts';
import type { Session } from '../session.ts';
import { Column, EmptyRow, Table } from '../table.tsx';
import { budgetText } from './account-actions.ts';

export interface KeysCardProps {
  readonly session: Session;
  /** Of the account. */
  readonly path: string;
  readonly account: string;
  readonly keys: readonly ApiKey[];
  readonly reload: () => Promise<void>;
}

type Action = 'create' | 'rotate' | 'pause' | 'resume' | 'revoke';

interface Chosen {
  readonly action: Action;
  readonly key?: ApiKey;
}

const KINDS = { active: 'healthy', paused: 'low', revoked: 'ejected', expired: 'frozen' };
const DAY_MS = 86_400_000;

/** The API keys of an account. */
export function KeysCard({ session, path, account, keys, reload }: KeysCardProps): JSX.Element {
  const [chosen, setChosen] = useState<Chosen>();
  const [secret, setSecret] = useState<string>();
  return (
    <section class="card" aria-labelledby="keys-title">
      <div class="title">
        <h2 id="keys-title">API keys</h2>
        {session.may('keys') && (
          <button type="button" id="create-key" class="plain" onClick={() => setChosen({ action: 'create' })}>
            New key
          </button>
        )}
      </div>
      <KeyRows account={account} keys={keys} choose={session.may('keys') ? setChosen : undefined} />
      {chosen && (
        <FormDialog
          {...formOf(chosen)}
          close={() => setChosen(undefined)}
          send={async (values, idempotencyKey) => {
            const made = await send(session, path, chosen, values, idempotencyKey);
            if (made.key !== undefined) setSecret(made.key);
            await reload();
          }}
        />
      )}
      {secret !== undefined && <Secret secret={secret} close={() => setSecret(undefined)} />}
    </section>
  );
}

interface KeyRowsProps extends Pick<KeysCardProps, 'account' | 'keys'> {
  /** Undefined if the operator may change nothing. */
  readonly choose: ((chosen: Chosen) => void) | undefined;
}

function KeyRows({ account, keys, choose }: KeyRowsProps): JSX.Element {
  const head = (
    <>
      <Column>Key</Column>
      <Column>State</Column>
      <Column class="wide">Limits</Column>
      <Column class="wide">Created</Column>
      <Column>
        <span class="unseen">Actions</span>
      </Column>
    </>
  );
  return (
    <Table id="key-rows" head={head}>
      {keys.map((key) => (
        <tr key={key.id}>
          <th scope="row">
            {key.name === '' ? key.id : key.name}
            <small>
              <a href={hrefOf('requests', undefined, { account, key: key.id })}>{key.id}</a>
            </small>
          </th>
          <td>
            <span class={`badge ${KINDS[key.state]}`}>{key.state}</span>
            {key.overlap_until !== undefined && (
              <small>{`old secret until ${moment(key.overlap_until)}`}</small>
            )}
          </td>
          <td class="wide">{limitsOf(key)}</td>
          <td class="wide">{moment(key.created_at)}</td>
          <td class="number">
            {choose &&
              actionsOf(key).map((action) => (
                <button
                  key={action}
                  type="button"
                  class="plain"
                  aria-label={`${TEXTS[action].button} ${key.name || key.id}`}
                  onClick={() => choose({ action, key })}
                >
                  {TEXTS[action].button}
                </button>
              ))}
          </td>
        </tr>
      ))}
      {keys.length === 0 && <EmptyRow columns={5}>There are no keys yet.</EmptyRow>}
    </Table>
  );
}

function actionsOf({ state }: ApiKey): readonly Action[] {
  if (state === 'revoked') return [];
  return [...(state === 'paused' ? (['resume'] as const) : (['pause'] as const)), 'rotate', 'revoke'];
}

function limitsOf({ budget, requests_per_minute, models }: ApiKey): string {
  const limits = [
    budgetText(budget),
    requests_per_minute === undefined ? undefined : `${requests_per_minute} requests a minute`,
    models?.join(', '),
  ];
  return limits.filter((limit) => limit !== undefined).join('; ') || 'none';
}

const TEXTS: Readonly<Record<Action, { readonly button: string; readonly text: string }>> = {
  create: { button: 'Create', text: 'Its secret is shown once.' },
  rotate: { button: 'Rotate', text: 'Makes a new secret, which is shown once.' },
  pause: { button: 'Pause', text: 'Its requests are rejected until it is resumed.' },
  resume: { button: 'Resume', text: 'Its requests are accepted again.' },
  revoke: { button: 'Revoke', text: 'Its requests are rejected from now on. This can not be undone.' },
};

function formOf({
  action,
  key,
}: Chosen): Pick<FormDialogProps, 'title' | 'text' | 'fields' | 'submit' | 'isDanger'> {
  const { button, text } = TEXTS[action];
  const fields = {
    create: [
      { name: 'name', label: 'Name' },
      { name: 'budget', label: 'Budget in USD a month', hint: 'Without one: not limited.' },
      { name: 'requests', label: 'Requests a minute', hint: 'Without a number: not limited.' },
    ],
    rotate: [
      { name: 'days', label: 'Days', value: '0', hint: 'How long the old secret works beside the new one.' },
    ],
    pause: [],
    resume: [],
    revoke: [],
  }[action];
  const title = key ? `${button} ${key.name || key.id}` : 'New API key';
  return { title, text, fields, submit: button, isDanger: action === 'revoke' };
}

async function send(
  { api }: Session,
  path: string,
  { action, key }: Chosen,
  { name, budget = '', requests = '', days = '' }: Readonly<Record<string, string>>,
  idempotencyKey: string,
): Promise<Partial<Pick<CreatedApiKey, 'key'>>> {
  const at = `${path}/keys${key ? `/${encodeURIComponent(key.id)}` : ''}`;
  if (action === 'revoke') return api.change('DELETE', at, undefined, idempotencyKey);
  if (action === 'create') {
    const limits = {
      ...(budget !== '' && { budget: { amount: budget, per: 'month' } }),
      ...(requests !== '' && { requests_per_minute: Number(requests) }),
    };
    return api.change('POST', at, { name, ...limits }, idempotencyKey);
  }
  const body = action === 'rotate' ? { overlap_ms: Math.round(Number(days) * DAY_MS) } : {};
  return api.change('POST', `${at}/${action}`, body, idempotencyKey);
}

/** A new secret, once. */
function Secret({ secret, close }: { readonly secret: string; readonly close: () => void }): JSX.Element {
  const [isCopied, setCopied] = useState(false);
  return (
    <Dialog title="The secret of the key" close={close}>
      <p>It is shown this once. Copy it now.</p>
      <p>
        <code id="secret">{secret}</code>
      </p>
      <div class="controls end">
        <button
          type="button"
          class="plain"
          onClick={() => void navigator.clipboard.writeText(secret).then(() => setCopied(true))}
        >
          {isCopied ? 'Copied' : 'Copy'}
        </button>
        <button type="button" class="primary" onClick={close}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
