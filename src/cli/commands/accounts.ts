import { createAccounts } from '../../ledger/operations/accounts.ts';
import { table } from '../terminal/table.ts';
import { type StoreCommand, usd } from './command.ts';

export const accountsCommand: StoreCommand = {
  name: 'accounts',
  summary: 'List all accounts with balance and state',
  store: 'exists',
  positionals: '',
  options: {},
  examples: ['accounts', 'accounts --json'],
  async run({ options: { json }, store, print }) {
    const accounts = createAccounts(store);
    const rows: string[][] = [];
    let cursor: string | undefined;
    do {
      const page = await accounts.list({ limit: PAGE, ...(cursor !== undefined && { cursor }) });
      for (const account of page.accounts) {
        if (json !== undefined) print('', account);
        const { id, balance, held, spent, granted, frozen } = account;
        rows.push([id, ...[balance, held, spent, granted].map(usd), frozen ? 'frozen' : 'active']);
      }
      ({ cursor } = page);
    } while (cursor !== undefined);
    if (json !== undefined) return true;
    if (rows.length === 0) print('no accounts', {});
    else for (const line of table(HEADS, rows)) print(line, {});
    return true;
  },
};

const HEADS = ['ACCOUNT', 'BALANCE', 'HELD', 'SPENT', 'GRANTED', 'STATE'];
const PAGE = 1000;
