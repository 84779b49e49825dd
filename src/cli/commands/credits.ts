import { createCredits, type CreditsChange } from '../../ledger/operations/credits.ts';
import { count, date, required, type StoreCommand, type StoreInvocation } from './command.ts';

export const grantCommand: StoreCommand = {
  name: 'credits grant',
  summary: 'Add credits to an account (which is created, if needed)',
  store: 'may-be-new',
  positionals: 'ACCOUNT AMOUNT',
  options: {
    id: { value: 'ID', help: 'id of the grant, such as a payment id; an id grants only once' },
    expires: {
      value: 'DATE',
      help: 'expiry of the unused credits, e.g. 2027-01-31T00:00Z; default: never',
    },
    priority: { value: 'N', help: '0 to 100, lower is used first; default: 50' },
  },
  async run(invocation) {
    const { positionals, options, store } = invocation;
    const [account = '', amount = ''] = positionals;
    const { expires, priority } = options;
    const expiresAt = expires === undefined ? undefined : date(expires, '--expires');
    const change = await createCredits(store).grant(account, amount, {
      id: required(invocation, 'id'),
      ...(expiresAt && { expiresAt }),
      ...(priority !== undefined && { priority: count(priority, '--priority') }),
    });
    return report(invocation, account, change);
  },
};

export const adjustCommand: StoreCommand = {
  name: 'credits adjust',
  summary: "Correct an account's balance, up or down",
  store: 'exists',
  positionals: 'ACCOUNT DELTA',
  options: {
    id: { value: 'ID', help: 'id of the adjustment; an id adjusts only once' },
    reason: { value: 'TEXT', help: 'stored in the journal' },
  },
  async run(invocation) {
    const [account = '', delta = ''] = invocation.positionals;
    const change = await createCredits(invocation.store).adjust(account, delta, {
      id: required(invocation, 'id'),
      reason: required(invocation, 'reason'),
    });
    return report(invocation, account, change);
  },
};

export const balanceCommand: StoreCommand = {
  name: 'credits balance',
  summary: 'Show the balance of one account or all',
  store: 'exists',
  positionals: '[ACCOUNT]',
  options: {},
  async run({ positionals: [account], store, print }) {
    const credits = createCredits(store);
    if (account !== undefined && !(await store.balance(account))) {
      print(`There is no account ${account}`, { account, error: 'no_account' });
      return false;
    }
    for await (const each of account === undefined ? credits.accounts() : [account]) {
      const balance = await credits.balance(each);
      const { held, totalUsed, totalGranted } = balance;
      const numbers = `${balance.balance} available, ${held} held, ${totalUsed} used of ${totalGranted} granted`;
      print(`${each}: ${numbers}`, { account: each, ...balance });
    }
    return true;
  },
};

function report({ print }: StoreInvocation, account: string, change: CreditsChange): boolean {
  const { available, duplicate, durable } = change;
  const repeated = duplicate ? ' (already applied)' : '';
  const unsafe = durable === false ? ' (NOT on the configured number of replicas: repeat the command)' : '';
  print(`${account}: ${available} available${repeated}${unsafe}`, { account, ...change });
  return durable !== false;
}
