import type { JSX } from 'preact';

import type { ApiKey } from '../../../client/admin-api.generated.ts';
import { moment } from '../format.ts';
import { hrefOf } from '../route.ts';
import { Column, EmptyRow, Table } from '../table.tsx';
import { actionsOf, type ChosenAction, KEY_ACTIONS } from './key-actions.ts';
import { budgetText } from './policy-form.ts';

const KINDS = { active: 'healthy', paused: 'low', revoked: 'ejected', expired: 'frozen' };

export interface KeyTableProps {
  readonly keys: readonly ApiKey[];
  /** Keys of several accounts. */
  readonly hasAccounts?: boolean;
  /** Said where there are none. */
  readonly none: string;
  /** Undefined if the operator may change nothing. */
  readonly choose: ((chosen: ChosenAction) => void) | undefined;
}

export function KeyTable({ keys, hasAccounts = false, none, choose }: KeyTableProps): JSX.Element {
  const head = (
    <>
      <Column>Key</Column>
      {hasAccounts && <Column>Account</Column>}
      <Column>State</Column>
      <Column class="wide">Limits</Column>
      <Column class="wide">Created</Column>
      {choose && (
        <Column>
          <span class="unseen">Actions</span>
        </Column>
      )}
    </>
  );
  return (
    <Table id="key-rows" head={head}>
      {keys.map((key) => (
        <tr key={`${key.account} ${key.id}`}>
          <th scope="row">
            <a href={keyHref(key)}>{key.name === '' ? key.id : key.name}</a>
            <small>{key.name !== '' && key.id}</small>
          </th>
          {hasAccounts && (
            <td>
              <a href={hrefOf('accounts', key.account)}>{key.account}</a>
            </td>
          )}
          <td>
            <KeyState of={key} />
          </td>
          <td class="wide wrap">{limitsOf(key)}</td>
          <td class="wide">{moment(key.created_at)}</td>
          {choose && (
            <td class="number actions">
              <KeyActions of={key} choose={choose} />
            </td>
          )}
        </tr>
      ))}
      {keys.length === 0 && <EmptyRow columns={6}>{none}</EmptyRow>}
    </Table>
  );
}

export function keyHref({ account, id }: Pick<ApiKey, 'account' | 'id'>): string {
  return hrefOf('keys', id, { account });
}

export function KeyState({ of: key }: { readonly of: ApiKey }): JSX.Element {
  return (
    <>
      <span class={`badge ${KINDS[key.state]}`}>{key.state}</span>
      {key.overlap_until !== undefined && <small>{`old secret: until ${moment(key.overlap_until)}`}</small>}
    </>
  );
}

interface KeyActionsProps {
  readonly of: ApiKey;
  readonly choose: (chosen: ChosenAction) => void;
}

/** The buttons for what can be done with a key. */
export function KeyActions({ of: key, choose }: KeyActionsProps): JSX.Element {
  return (
    <>
      {actionsOf(key).map((action) => (
        <button
          key={action}
          type="button"
          class="plain"
          aria-label={`${KEY_ACTIONS[action].button} ${key.name || key.id}`}
          onClick={() => choose({ action, account: key.account, key })}
        >
          {KEY_ACTIONS[action].button}
        </button>
      ))}
    </>
  );
}

function limitsOf({ budget, requests_per_minute, tokens_per_minute, models, expires_at }: ApiKey): string {
  const limits = [
    budgetText(budget),
    requests_per_minute === undefined ? undefined : `${requests_per_minute} requests a minute`,
    tokens_per_minute === undefined ? undefined : `${tokens_per_minute} tokens a minute`,
    models?.join(', '),
    expires_at === undefined ? undefined : `until ${moment(expires_at)}`,
  ];
  return limits.filter((limit) => limit !== undefined).join('; ') || 'none';
}
