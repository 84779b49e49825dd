import { GatewayAliveError, migrate } from '../../ledger/operations/migrate.ts';
import { type StoreCommand, plural, required, usd, UsageError } from './command.ts';

export const migrateCommand: StoreCommand = {
  name: 'migrate',
  summary: 'Move all accounts and API keys to another store, while no router uses either',
  store: 'exists',
  positionals: '',
  options: {
    to: {
      value: 'URL',
      isRequired: true,
      help: 'the target store: empty, or left by an interrupted migration',
    },
    force: { help: 'migrate although a gateway seems to use a store' },
  },
  examples: ['migrate --to redis://127.0.0.1:6379'],
  async run(invocation) {
    const { store, print, progress, open, options } = invocation;
    const to = required(invocation, 'to');
    if (to === 'memory:') throw new UsageError('--to memory: would be lost when this command exits');
    const done = { checked: 0, moved: 0, compared: 0 };
    const moving = migrate(store, open(to), {
      force: options['force'] !== undefined,
      onAccount: (_account, step) => {
        done[step] += 1;
        const { checked } = done;
        progress(
          `${step} ${step === 'checked' ? plural(checked, 'account') : `${done[step]} of ${checked}`} …`,
        );
      },
    }).catch((error: unknown) => {
      throw error instanceof GatewayAliveError ? new Error(`${error.message}. Or use --force`) : error;
    });
    const { problems, ...moved } = await moving;
    for (const problem of problems) print(`${problem.account}: ${problem.message}`, problem);
    const { accounts, keys, available } = moved;
    const outcome = problems.length === 0 ? 'verified' : plural(problems.length, 'problem');
    print(
      `Moved ${plural(accounts, 'account')} with ${usd(available)} available, and ${plural(keys, 'key')}: ${outcome}`,
      {
        ...moved,
        problems: problems.length,
      },
    );
    return problems.length === 0;
  },
};
