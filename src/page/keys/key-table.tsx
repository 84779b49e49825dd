import type { JSX } from 'preact';

import { date } from '../format.ts';
import { Column, EmptyRow, Table } from '../table.tsx';
import { type KeyAction, KEY_ACTIONS, type KeyRow } from './key-actions.ts';
import { budgetText } from './budgets.ts';

const KINDS = { active: 'healthy', paused: 'low', revoked: 'ejected', expired: 'frozen' };

export interface KeyTableProps<Key extends KeyRow> {
  readonly keys: readonly Key[];
  /** Address of a key's own view. */
  readonly hrefOf: (key: Key) => string;
  /** Where keys are of several accounts: a link to its own. */
  readonly accountOf?: (key: Key) => JSX.Element;
  /** Said where there are none. */
  readonly none: string;
  /** What can be done with a key; none where nothing may be changed. */
  readonly actionsOf: (key: Key) => readonly KeyAction[];
  readonly choose: ((action: KeyAction, key: Key) => void) | undefined;
}

export function KeyTable<Key extends KeyRow>(props: KeyTableProps<Key>): JSX.Element {
  const { keys, hrefOf, accountOf, none, actionsOf, choose } = props;
  const head = (
    <>
      <Column>Key</Column>
      {accountOf && <Column>Account</Column>}
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
        <tr key={hrefOf(key)}>
          <th scope="row">
            <a href={hrefOf(key)}>{key.name || key.id}</a>
            <small>{key.name && key.id}</small>
          </th>
          {accountOf && <td>{accountOf(key)}</td>}
          <td>
            <KeyState of={key} />
          </td>
          <td class="wide wrap">{limitsOf(key)}</td>
          <td class="wide">{date(key.created_at)}</td>
          {choose && (
            <td class="number actions">
              <KeyActions of={key} actions={actionsOf(key)} choose={(action) => choose(action, key)} />
            </td>
          )}
        </tr>
      ))}
      {keys.length === 0 && <EmptyRow columns={6}>{none}</EmptyRow>}
    </Table>
  );
}

export function KeyState({ of: key }: { readonly of: KeyRow }): JSX.Element {
  return (
    <>
      <span class={`badge ${KINDS[key.state]}`}>{key.state}</span>
      {key.overlap_until !== undefined && <small>{`old secret: until ${date(key.overlap_until)}`}</small>}
    </>
  );
}

interface KeyActionsProps {
  readonly of: KeyRow;
  readonly actions: readonly KeyAction[];
  readonly choose: (action: KeyAction) => void;
}

/** The buttons for what can be done with a key. */
export function KeyActions({ of: key, actions, choose }: KeyActionsProps): JSX.Element {
  return (
    <>
      {actions.map((action) => (
        <button
          key={action}
          type="button"
          class="plain"
          aria-label={`${KEY_ACTIONS[action].button} ${key.name || key.id}`}
          onClick={() => choose(action)}
        >
          {KEY_ACTIONS[action].button}
        </button>
      ))}
    </>
  );
}

function limitsOf({ budget, requests_per_minute, tokens_per_minute, models, expires_at }: KeyRow): string {
  const limits = [
    budgetText(budget),
    requests_per_minute === undefined ? undefined : `${requests_per_minute} requests a minute`,
    tokens_per_minute === undefined ? undefined : `${tokens_per_minute} tokens a minute`,
    models?.join(', '),
    expires_at === undefined ? undefined : `until ${date(expires_at)}`,
  ];
  return limits.filter((limit) => limit !== undefined).join('; ') || 'none';
}
