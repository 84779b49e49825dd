import { createCredits } from '../../ledger/operations/credits.ts';
import { type StoreCommand, wholeNumber, UsageError } from './command.ts';

export const journalCommand: StoreCommand = {
  name: 'journal',
  summary: 'Print the journal of one account or all, as JSON lines',
  store: 'exists',
  positionals: '[ACCOUNT]',
  examples: ['journal > journal.jsonl', 'journal acme --after 1200'],
  options: { after: { value: 'POSITION', help: 'start after this position; default: 0' } },
  async run({ positionals: [account], options, store, write }) {
    const after = wholeNumber(options['after'] ?? '0', '--after');
    if (account === undefined && after > 0) throw new UsageError('--after requires an ACCOUNT');
    await write(createCredits(store).exportJournal({ after, ...(account !== undefined && { account }) }));
    return true;
  },
};
