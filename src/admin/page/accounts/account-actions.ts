import type { AccountDetails } from '../../../client/admin-api.generated.ts';
import { ApiError } from '../../../page/api.ts';
import type { FormDialogProps } from '../../../page/dialog.tsx';
import { changedValues, policyChange, policyFields } from '../../../page/keys/policy-form.ts';

/** What an operator may do with an account. */
export type AccountAction = 'grant' | 'adjust' | 'allowance' | 'policy' | 'freeze' | 'unfreeze' | 'delete';

type Values = Readonly<Record<string, string>>;

export interface ChangeRequest {
  readonly method: 'POST' | 'PATCH' | 'DELETE';
  /** After the path of the account. */
  readonly to: string;
  readonly body?: object;
}

export interface ActionForm extends Pick<
  FormDialogProps,
  'title' | 'text' | 'fields' | 'submit' | 'isDanger'
> {
  /** Of the button that opens it. */
  readonly button: string;
  requestOf(values: Values): ChangeRequest;
}

const PERIODS = ['hour', 'day', 'week', 'month'];

export function actionForm(action: AccountAction, account: AccountDetails): ActionForm {
  return FORMS[action](account);
}

const FORMS: Readonly<Record<AccountAction, (account: AccountDetails) => ActionForm>> = {
  grant: ({ id }) => ({
    button: 'Grant',
    title: `Grant credits to ${id}`,
    fields: [
      { name: 'amount', label: 'Amount in USD', isRequired: true },
      { name: 'expires', label: 'Expires', hint: 'A day such as 2027-01-31; without one: never.' },
    ],
    submit: 'Grant',
    requestOf: ({ amount, expires = '' }) => ({
      method: 'POST',
      to: '/grants',
      body: { amount, ...(expires !== '' && { expires_at: `${expires}T00:00:00Z` }) },
    }),
  }),
  adjust: ({ id }) => ({
    button: 'Adjust',
    title: `Adjust the balance of ${id}`,
    fields: [
      { name: 'delta', label: 'Change in USD', isRequired: true, hint: 'Up or down: 2.50, -2.50' },
      { name: 'reason', label: 'Reason', isRequired: true, hint: 'Stands in the journal.' },
    ],
    submit: 'Adjust',
    requestOf: ({ delta, reason }) => ({ method: 'POST', to: '/adjustments', body: { delta, reason } }),
  }),
  allowance: ({ id: account }) => ({
    button: 'Allowance',
    title: `Allowance of ${account}`,
    text: 'Credits that are renewed in each period. An allowance of the same ID is replaced.',
    fields: [
      { name: 'id', label: 'ID', isRequired: true, value: 'plan' },
      { name: 'amount', label: 'Amount in USD', isRequired: true },
      { name: 'per', label: 'Per', choices: PERIODS, value: 'month' },
    ],
    submit: 'Set',
    requestOf: ({ id = '', amount, per }) => ({
      method: 'POST',
      to: `/allowances/${encodeURIComponent(id)}`,
      body: { amount, per },
    }),
  }),
  policy: (account) => policyForm(account),
  freeze: ({ id }) => ({
    button: 'Freeze',
    title: `Freeze ${id}`,
    text: 'New requests are rejected. Running ones end as usual, and are charged.',
    submit: 'Freeze',
    requestOf: () => ({ method: 'PATCH', to: '', body: { frozen: true } }),
  }),
  unfreeze: ({ id }) => ({
    button: 'Unfreeze',
    title: `Unfreeze ${id}`,
    text: 'New requests are accepted again.',
    submit: 'Unfreeze',
    requestOf: () => ({ method: 'PATCH', to: '', body: { frozen: false } }),
  }),
  delete: ({ id }) => ({
    button: 'Delete',
    title: `Delete ${id}`,
    text: 'Its keys, names, usage and journal are deleted, and its credits are lost. This can not be undone. Freeze it first.',
    fields: [{ name: 'confirmed', label: `Type ${id} to confirm`, isRequired: true }],
    submit: 'Delete',
    isDanger: true,
    requestOf({ confirmed }) {
      if (confirmed !== id) throw new ApiError(0, `The confirmation must be ${id}.`);
      return { method: 'DELETE', to: '' };
    },
  }),
};

function policyForm({ id, policy }: AccountDetails): ActionForm {
  const fields = policyFields(policy);
  return {
    button: 'Policy',
    title: `Policy of ${id}`,
    text: 'Limits of all its keys together. What is empty is not limited.',
    fields,
    submit: 'Save',
    requestOf: (values) => ({
      method: 'PATCH',
      to: '',
      body: { policy: policyChange(changedValues(fields, values)) },
    }),
  };
}
