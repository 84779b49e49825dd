import { createCredits } from '../../ledger/operations/credits.ts';
import { type StoreCommand, count, UsageError } from './command.ts';

export const journalCommand: StoreCommand = {
  name: 'journal',
  summary: 'Print the journal of one account or all, as JSON lines',
  store: 'exists',
  positionals: '[ACCOUNT]',
  options: { after: { value: 'POSITION', help: 'begin after this position; 0 by default' } },
  async run({ positionals: [account], options, store, write }) {
    const after = count(options['after'] ?? '0', '--after');
    if (account === undefined && after > 0) throw new UsageError('--after needs an ACCOUNT');
    await write(createCredits(store).exportJournal({ after, ...(account !== undefined && { account }) }));
    return true;
  },
};

export const trimCommand: StoreCommand = {
  name: 'trim',
  summary: "Fold an account's journal up to a position into sums, once it is exported",
  store: 'exists',
  positionals: 'ACCOUNT POSITION',
  options: {},
  async run({ positionals: [account = '', position = ''], store, print }) {
    const through = count(position, 'POSITION');
    await createCredits(store).compact(account, through);
    print(`${account}: folded up to ${through}`, { account, through });
    return true;
  },
};
