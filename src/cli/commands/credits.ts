import { createAccounts } from '../../ledger/operations/accounts.ts';
import { createCredits, type CreditsChange } from '../../ledger/operations/credits.ts';
import type { LedgerStore } from '../../ledger/contract/ledger-store.ts';
import type { Column } from '../terminal/listing.ts';
import {
  amountColumn,
  changeNotes,
  wholeNumber,
  date,
  required,
  type StoreCommand,
  type StoreInvocation,
  usd,
} from './command.ts';

export const grantCommand: StoreCommand = {
  name: 'credits grant',
  summary: 'Add credits to an account (which is created, if needed)',
  store: 'may-be-new',
  positionals: 'ACCOUNT AMOUNT',
  options: {
    id: {
      value: 'ID',
      isRequired: true,
      help: 'id of the grant, such as a payment id; an id grants only once',
    },
    expires: {
      value: 'DATE',
      help: 'expiry of the unused credits, e.g. 2027-01-31T00:00Z; default: never',
    },
    priority: { value: 'N', help: '0 to 100, lower is used first; default: 50' },
  },
  examples: [
    'credits grant acme 25.00 --id stripe_evt_123',
    'credits grant acme 5.00 --id trial-acme --expires 2027-01-31T00:00Z',
  ],
  async run(invocation) {
    const { positionals, options, store } = invocation;
    const [account = '', amount = ''] = positionals;
    const { expires, priority } = options;
    const expiresAt = expires === undefined ? undefined : date(expires, '--expires');
    const change = await createCredits(store).grant(account, amount, {
      id: required(invocation, 'id'),
      ...(expiresAt && { expiresAt }),
      ...(priority !== undefined && { priority: wholeNumber(priority, '--priority') }),
    });
    return report(invocation, account, change);
  },
};

export const grantsCommand: StoreCommand = {
  name: 'credits grants',
  summary: "Show what is left of an account's grants, in the order in which it is spent",
  store: 'exists',
  positionals: 'ACCOUNT',
  options: {},
  printsRows: true,
  examples: ['credits grants acme'],
  async run({ positionals: [account = ''], store, list }) {
    await list({
      columns: [
        'id',
        amountColumn('amount'),
        amountColumn('remaining'),
        'priority',
        'expiresAt',
        'allowance',
      ],
      rows: await createCredits(store).lots(account),
      none: 'no grants',
    });
    return true;
  },
};

export const adjustCommand: StoreCommand = {
  name: 'credits adjust',
  summary: "Correct an account's balance, up or down",
  store: 'exists',
  positionals: 'ACCOUNT DELTA',
  options: {
    id: { value: 'ID', isRequired: true, help: 'id of the adjustment; an id adjusts only once' },
    reason: { value: 'TEXT', isRequired: true, help: 'stored in the journal' },
    force: { help: 'take also what the account does not have, as after a chargeback; freezes the account' },
  },
  examples: ["credits adjust acme -1.00 --id ticket_77 --reason 'refund of a duplicate'"],
  async run(invocation) {
    const [account = '', delta = ''] = invocation.positionals;
    const change = await createCredits(invocation.store).adjust(account, delta, {
      id: required(invocation, 'id'),
      reason: required(invocation, 'reason'),
      ...(invocation.options['force'] !== undefined && { force: true }),
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
  printsRows: true,
  examples: ['credits balance', 'credits balance acme'],
  async run({ positionals: [account], store, list }) {
    await list({ columns: BALANCE_COLUMNS, rows: balancesOf(store, account), none: 'no accounts' });
    return true;
  },
};

interface Balance {
  readonly account: string;
  readonly balance: string;
  readonly creditLimit: string;
  readonly held: string;
  readonly totalUsed: string;
  readonly totalGranted: string;
  readonly expired: string;
  readonly writtenOff: string;
  readonly frozen: boolean;
}

const BALANCE_COLUMNS: readonly (Column<Balance> | 'account')[] = [
  'account',
  amountColumn('balance'),
  amountColumn('creditLimit'),
  amountColumn('held'),
  amountColumn('totalUsed'),
  amountColumn('totalGranted'),
  amountColumn('expired'),
  amountColumn('writtenOff'),
  {
    name: 'frozen',
    head: 'STATE',
    value: ({ frozen }) => frozen,
    shown: ({ frozen }) => (frozen ? 'frozen' : 'active'),
  },
];

async function* balancesOf(
  store: LedgerStore,
  account: string | undefined,
): AsyncGenerator<Balance, void, undefined> {
  const accounts = createAccounts(store);
  for await (const each of account === undefined ? store.accounts() : [account]) {
    const found = await accounts.get(each);
    if (!found) continue;
    const { id, spent: totalUsed, granted: totalGranted, ...rest } = found;
    const { balance, creditLimit, held, expired, writtenOff, frozen } = rest;
    yield { account: id, balance, creditLimit, held, totalUsed, totalGranted, expired, writtenOff, frozen };
  }
}

export const compactCommand: StoreCommand = {
  name: 'credits compact',
  summary: "Compact an account's exported journal, up to a position, into sums",
  store: 'exists',
  positionals: 'ACCOUNT POSITION',
  options: {},
  examples: ['credits compact acme 1200'],
  async run({ positionals: [account = '', position = ''], store, print }) {
    const wanted = wholeNumber(position, 'POSITION');
    const { seq = 0n } = (await store.balance(account)) ?? {};
    await createCredits(store).compact(account, wanted);
    // The journal may end before.
    const through = Math.min(wanted, Number(seq));
    print(`${account}: compacted up to ${through}`, { account, through });
    return true;
  },
};

function report({ print }: StoreInvocation, account: string, change: CreditsChange): boolean {
  print(`${account}: ${usd(change.available)} available${changeNotes(change)}`, { account, ...change });
  return change.durable !== false;
}
