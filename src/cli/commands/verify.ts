import { type Finding, verifyLedger } from '../../ledger/operations/verify.ts';
import { type StoreCommand, type StoreInvocation, plural } from './command.ts';

export const verifyCommand: StoreCommand = {
  name: 'verify',
  summary: 'Verify the balances of one account or all against the journal',
  store: 'exists',
  positionals: '[ACCOUNT]',
  options: {},
  printsRows: true,
  examples: ['verify', 'verify acme --json'],
  async run(invocation) {
    const { options, list, print, note } = invocation;
    const done = { accounts: 0, lines: 0, findings: 0 };
    await list({
      columns: [
        'account',
        'invariant',
        { name: 'requestId', head: 'REQUEST', value: ({ requestId }) => requestId },
        { name: 'message', value: ({ message, damage }) => message ?? `the store is damaged: ${damage}` },
      ],
      rows: findingsOf(invocation, done),
    });
    const { accounts, lines, findings } = done;
    const outcome = findings === 0 ? 'no problems found' : plural(findings, 'finding');
    const summary = `${plural(accounts, 'account')}, ${plural(lines, 'journal entry')}: ${outcome}`;
    if (options['csv'] === undefined) print(summary, done);
    else note(summary);
    return findings === 0;
  },
};

/** What is wrong with an account, or with the file of the store. */
type Row = Partial<Finding> & { readonly damage?: string };

/** @param done - counts what was read */
async function* findingsOf(
  { store, positionals: [account], progress }: StoreInvocation,
  done: { accounts: number; lines: number; findings: number },
): AsyncGenerator<Row, void, undefined> {
  for (const damage of (await store.damage?.()) ?? []) {
    done.findings += 1;
    yield { damage };
  }
  for await (const each of verifyLedger(store, { ...(account !== undefined && { account }) })) {
    done.accounts += 1;
    done.lines += each.lines;
    done.findings += each.findings.length;
    progress(`${plural(done.accounts, 'account')}, ${plural(done.lines, 'journal entry')} …`);
    yield* each.findings;
  }
}
