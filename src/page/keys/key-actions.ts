import type { AccountPolicy, ApiKey as AdminApiKey } from '../../client/admin-api.generated.ts';
import { type Api, ApiError } from '../api.ts';
import type { Field, FormDialogProps } from '../dialog.tsx';
import { timeOf } from '../form-values.ts';
import { changedValues, policyChange, policyFields } from './policy-form.ts';

/** What an operator may do with a key. */
export type KeyAction = 'create' | 'limits' | 'rotate' | 'pause' | 'resume' | 'revoke';

/** What an operator and a customer see of a key alike. */
export interface KeyRow extends AccountPolicy, Pick<AdminApiKey, 'id' | 'state' | 'created_at'> {
  readonly overlap_until?: string;
  readonly expires_at?: string;
}

export interface ChosenAction {
  readonly action: KeyAction;
  /** Path of the account's keys. */
  readonly path: string;
  /** As it was when the form was opened; undefined for `create`. */
  readonly key?: KeyRow;
  /** Names of the fields that can't be chosen. */
  readonly fixed?: readonly string[];
}

type Values = Readonly<Record<string, string>>;

const DAY_MS = 86_400_000;

export const KEY_ACTIONS: Readonly<Record<KeyAction, { readonly button: string; readonly text: string }>> = {
  create: { button: 'Create', text: 'Its secret is shown once. What is empty is not limited.' },
  limits: { button: 'Limits', text: 'What is empty is not limited.' },
  rotate: { button: 'Rotate', text: 'Makes a new secret, which is shown once.' },
  pause: { button: 'Pause', text: 'Its requests are rejected until it is resumed.' },
  resume: { button: 'Resume', text: 'Its requests are accepted again.' },
  revoke: { button: 'Revoke', text: 'Its requests are rejected from now on. This can not be undone.' },
};

export function actionsOf({ state }: KeyRow): readonly KeyAction[] {
  if (state === 'revoked') return [];
  return ['limits', state === 'paused' ? 'resume' : 'pause', 'rotate', 'revoke'];
}

export function keyForm({
  action,
  key,
  fixed = [],
}: ChosenAction): Pick<FormDialogProps, 'title' | 'text' | 'fields' | 'submit' | 'isDanger'> {
  const { button, text } = KEY_ACTIONS[action];
  const title = key ? `${button}: ${key.name || key.id}` : 'New API key';
  const submit = action === 'limits' ? 'Save' : button;
  const all = fieldsOf(action, key);
  const fields = all.filter(({ name }) => !fixed.includes(name));
  const others = all.filter((field) => !fields.includes(field)).map(({ label }) => label);
  return {
    title,
    text: others.length === 0 ? text : `${text} The same for all keys here: ${others.join(', ')}.`,
    fields,
    submit,
    isDanger: action === 'revoke',
  };
}

function fieldsOf(action: KeyAction, key: KeyRow | undefined): readonly Field[] {
  if (action === 'create' || action === 'limits') {
    return [
      ...policyFields(key),
      {
        name: 'expires_at',
        label: 'Expires',
        value: key?.expires_at ?? '',
        hint: 'A day such as 2027-01-31, or a time; without one: never.',
      },
    ];
  }
  if (action !== 'rotate') return [];
  return [
    { name: 'days', label: 'Days', value: '1', hint: 'How long the old secret works beside the new one.' },
  ];
}

/**
 * @returns the new secret, where there is one
 * @throws {ApiError} also if an earlier try has made the secret, which is shown once
 */
export async function changeKey(
  api: Api,
  { action, path, key }: ChosenAction,
  values: Values,
  idempotencyKey: string,
): Promise<string | undefined> {
  const at = `${path}${key ? `/${encodeURIComponent(key.id)}` : ''}`;
  const send = (
    method: 'POST' | 'PATCH' | 'DELETE',
    to: string,
    body?: object,
  ): Promise<{ readonly key?: string }> => api.change(method, to, body, idempotencyKey);
  const changed = changedValues(fieldsOf(action, key), values);
  if (action === 'create') return secretIn(await send('POST', at, withoutNulls(keyChange(changed))));
  if (action === 'rotate') return secretIn(await send('POST', `${at}/rotate`, overlapOf(values)));
  if (action === 'revoke') await send('DELETE', at);
  else if (action === 'limits') await send('PATCH', at, keyChange(changed));
  else await send('POST', `${at}/${action}`, {});
  return undefined;
}

function secretIn({ key: secret }: { readonly key?: string }): string {
  if (secret !== undefined) return secret;
  throw new ApiError(
    0,
    'This was done before, but the answer with the secret was lost. Cancel, and rotate the key to get another secret.',
  );
}

function keyChange(values: Values): object {
  const { expires_at: expires } = values;
  if (expires === undefined) return policyChange(values);
  return { ...policyChange(values), expires_at: expires === '' ? null : timeOf(expires) };
}

function withoutNulls(change: object): object {
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== null));
}

/** Nothing is no number: 0 ends the old secret at once. @throws {ApiError} */
function overlapOf({ days = '' }: Values): object {
  if (!/^\d+(?:\.\d+)?$/.test(days))
    throw new ApiError(0, `Days must be a number, got ${JSON.stringify(days)}.`);
  return { overlap_ms: Math.round(Number(days) * DAY_MS) };
}
