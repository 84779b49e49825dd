import { verifyLedger } from '../../ledger/operations/verify.ts';
import { type StoreCommand, plural } from './command.ts';

export const verifyCommand: StoreCommand = {
  name: 'verify',
  summary: 'Verify the balances of one account or all against the journal',
  store: 'exists',
  positionals: '[ACCOUNT]',
  options: {},
  examples: ['verify', 'verify acme --json'],
  async run({ positionals: [account], store, print, progress }) {
    let [accounts, lines, findings] = [0, 0, 0];
    for (const message of (await store.damage?.()) ?? []) {
      findings += 1;
      print(`the store is damaged: ${message}`, { damage: message });
    }
    for await (const each of verifyLedger(store, { ...(account !== undefined && { account }) })) {
      accounts += 1;
      lines += each.lines;
      progress(`${plural(accounts, 'account')}, ${plural(lines, 'journal entry')} …`);
      findings += each.findings.length;
      for (const finding of each.findings) {
        print(`${finding.account}: ${finding.invariant} ${finding.message}`, finding);
      }
    }
    const outcome = findings === 0 ? 'no problems found' : plural(findings, 'finding');
    print(`${plural(accounts, 'account')}, ${plural(lines, 'journal entry')}: ${outcome}`, {
      accounts,
      lines,
      findings,
    });
    return findings === 0;
  },
};
