import type { AccountDetails, Allowance } from '../../../client/admin-api.generated.ts';
import { ApiError } from '../../../page/api.ts';
import type { Field, FormDialogProps } from '../../../page/dialog.tsx';
import { timeOf } from '../../../page/form-values.ts';
import { periodText } from '../../../page/format.ts';
import { changedValues, numberOf, policyChange, policyFields } from '../../../page/keys/policy-form.ts';

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
const ROLLOVERS = ['none', 'once', 'all'];

/** @param allowances - those that the account has */
export function actionForm(
  action: AccountAction,
  account: AccountDetails,
  allowances: readonly Allowance[],
): ActionForm {
  return FORMS[action](account, allowances);
}

type FormOf = (account: AccountDetails, allowances: readonly Allowance[]) => ActionForm;

const FORMS: Readonly<Record<AccountAction, FormOf>> = {
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
  allowance: newAllowanceForm,
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

function newAllowanceForm({ id: account }: AccountDetails, allowances: readonly Allowance[]): ActionForm {
  const has = (id: string): boolean => allowances.some((each) => each.id === id);
  return {
    button: 'Allowance',
    title: `New allowance of ${account}`,
    text: 'Credits that are renewed in each period.',
    fields: [
      { name: 'id', label: 'ID', isRequired: true, value: has('plan') ? '' : 'plan' },
      { name: 'per', label: 'Per', choices: PERIODS, value: 'month' },
      ...termFields(),
    ],
    submit: 'Create',
    requestOf({ id = '', per, ...terms }) {
      if (has(id)) {
        throw new ApiError(
          0,
          `${account} has an allowance ${id}: change it where the allowances are listed.`,
        );
      }
      return allowanceRequest(id, per, terms);
    },
  };
}

/** Of an allowance that there is: its terms are sent as a whole, so all of them are shown. */
export function allowanceForm(allowance: Allowance): ActionForm {
  const { id, per } = allowance;
  return {
    button: 'Change',
    title: `Allowance ${id}`,
    text: `Credits that are renewed once ${periodText(per)}. A new amount counts from the next period on.`,
    fields: termFields(allowance),
    submit: 'Save',
    requestOf: (terms) => allowanceRequest(id, per, terms),
  };
}

/** The terms that may be changed. */
function termFields(allowance?: Allowance): readonly Field[] {
  const { amount = '', until = '', rollover = 'none', priority = 50 } = allowance ?? {};
  return [
    { name: 'amount', label: 'Amount in USD', isRequired: true, value: amount },
    {
      name: 'until',
      label: 'Until',
      value: until,
      hint: 'A day such as 2027-01-31, or a time, from which on no period begins; without one it does not end.',
    },
    {
      name: 'rollover',
      label: 'Rollover',
      choices: ROLLOVERS,
      value: rollover,
      hint: 'What is left at the end of a period expires (none), lasts one more period (once), or stays (all).',
    },
    {
      name: 'priority',
      label: 'Priority',
      value: String(priority),
      hint: 'From 0 to 100: credits with a smaller number are spent first. Usual is 50.',
    },
  ];
}

/** @throws {ApiError} naming the wrong field */
function allowanceRequest(
  id: string,
  per: string | undefined,
  { amount, until = '', rollover, priority: typed = '' }: Values,
): ChangeRequest {
  const priority = numberOf(typed, 'Priority');
  return {
    method: 'POST',
    to: `/allowances/${encodeURIComponent(id)}`,
    body: {
      amount,
      per,
      rollover,
      ...(until !== '' && { until: timeOf(until) }),
      ...(priority !== null && { priority }),
    },
  };
}

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
