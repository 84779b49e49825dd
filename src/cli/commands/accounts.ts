import { type AccountInfo, createAccounts } from '../../ledger/operations/accounts.ts';
import { type AccountDetails, type Accounts, createAccountPolicies } from '../../keys/account-policies.ts';
import { policyText } from '../../keys/key-policy.ts';
import type { Column } from '../terminal/listing.ts';
import { parseUsd } from '../../ledger/contract/money.ts';
import type { LedgerStore } from '../../ledger/contract/ledger-store.ts';
import {
  amountColumn,
  NotFoundError,
  requireAccount,
  type StoreCommand,
  usd,
  UsageError,
} from './command.ts';
import { POLICY_OPTIONS, policyChanges } from './key-options.ts';
import { counterFacts, factsText } from './keys.ts';

export const accountsCommand: StoreCommand = {
  name: 'accounts',
  summary: 'List all accounts with balance and state',
  store: 'exists',
  positionals: '',
  options: {},
  printsRows: true,
  examples: ['accounts', 'accounts --csv > accounts.csv'],
  async run({ store, list }) {
    await list({ columns: COLUMNS, rows: accountsOf(store), none: 'no accounts' });
    return true;
  },
};

const COLUMNS: readonly Column<AccountInfo>[] = [
  { name: 'id', head: 'ACCOUNT', value: ({ id }) => id },
  amountColumn('balance'),
  amountColumn('creditLimit', true),
  amountColumn('held'),
  amountColumn('spent'),
  amountColumn('granted'),
  amountColumn('expired', true),
  amountColumn('writtenOff', true),
  {
    name: 'frozen',
    head: 'STATE',
    value: ({ frozen }) => frozen,
    shown: ({ frozen }) => (frozen ? 'frozen' : 'active'),
  },
];
const PAGE = 1000;

async function* accountsOf(store: LedgerStore): AsyncGenerator<AccountInfo, void, undefined> {
  const accounts = createAccounts(store);
  let cursor: string | undefined;
  do {
    const page = await accounts.list({ limit: PAGE, ...(cursor !== undefined && { cursor }) });
    yield* page.accounts;
    ({ cursor } = page);
  } while (cursor !== undefined);
}

export const getAccountCommand: StoreCommand = {
  name: 'accounts get',
  summary: 'Show an account with its balance, its policy and what counts against that',
  store: 'exists',
  positionals: 'ACCOUNT',
  options: {},
  examples: ['accounts get acme'],
  async run({ positionals: [account = ''], store, print }) {
    const found = await policiesOf(store).get(account);
    if (!found) throw new NotFoundError(`there is no account ${account}`, { account, error: 'no_account' });
    print(details(found), found);
    return true;
  },
};

export const getEndUserCommand: StoreCommand = {
  name: 'accounts end-user',
  summary: 'Show what counts for an end user of an account, or of one of its keys',
  store: 'exists',
  positionals: 'ACCOUNT END_USER',
  options: { key: { value: 'ID', help: 'a key whose own limits of end users count' } },
  examples: ['accounts end-user acme alice', 'accounts end-user acme alice --key prod'],
  async run({ positionals: [account = '', endUser = ''], options: { key }, store, print }) {
    const found = await policiesOf(store).endUser(account, endUser, { ...(key !== undefined && { key }) });
    if (!found) {
      await requireAccount(store, account);
      const facts = { account, error: 'end_users_not_limited' };
      throw new NotFoundError(`account ${account} has no limits of end users`, facts);
    }
    const own = [
      ['end user', endUser],
      ['key', found.key],
      ['counters', found.shared ? 'shared' : 'its own'],
    ] as const;
    print(factsText([...own, ...counterFacts(found)]), found);
    return true;
  },
};

const ACCOUNT_OPTIONS = Object.fromEntries(
  Object.entries(POLICY_OPTIONS).filter(([name]) => name !== 'expires' && name !== 'markup'),
);

export const updateAccountCommand: StoreCommand = {
  name: 'accounts update',
  summary: 'Change the limits of an account, for all of its keys together',
  store: 'exists',
  positionals: 'ACCOUNT',
  options: {
    ...ACCOUNT_OPTIONS,
    remove: {
      value: 'NAMES',
      choices: Object.keys(ACCOUNT_OPTIONS),
      isList: true,
      help: 'options to remove, e.g. --remove budget,models',
    },
  },
  examples: ['accounts update acme --budget 1.00/hour,20.00/month --requests-per-minute 60'],
  async run({ positionals: [account = ''], options, store, print }) {
    const changes = policyChanges(options);
    if (Object.keys(changes).length === 0)
      throw new UsageError('nothing to change; give at least one option');
    const changed = await policiesOf(store).update(account, changes);
    if (!changed) throw new NotFoundError(`there is no account ${account}`, { account, error: 'no_account' });
    print(`${account}: ${policyText(changed.policy) || 'no limits'}`, changed);
    return true;
  },
};

/** Without a cache to invalidate: every process checks the policy's version in the store when it admits a completion. */
function policiesOf(store: LedgerStore): Accounts {
  return createAccountPolicies(store, createAccounts(store), { invalidate: () => {} });
}

/** An amount, where it is one. */
function some(amount: string): string | undefined {
  return parseUsd(amount, 'amount') === 0n ? undefined : usd(amount);
}

function details(account: AccountDetails): string {
  const { id, balance, creditLimit, held, spent, granted, expired, writtenOff, frozen, policy, limits } =
    account;
  const notes = Object.entries(policy.metadata ?? {}).map((pair) => pair.join('='));
  return factsText([
    ['id', id],
    ['name', policy.name],
    ['metadata', notes.join(',') || undefined],
    ['state', frozen ? 'frozen' : 'active'],
    ['balance', usd(balance)],
    ['credit limit', some(creditLimit)],
    ['held', usd(held)],
    ['spent', usd(spent)],
    ['granted', usd(granted)],
    ['expired', some(expired)],
    ['written off', some(writtenOff)],
    ['policy', policyText(policy) || 'no limits'],
    ...(limits
      ? counterFacts(limits).map(
          ([name, value]) => [name === 'spent' || name === 'held' ? `limit ${name}` : name, value] as const,
        )
      : []),
  ]);
}
