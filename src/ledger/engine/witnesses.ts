import { type AccountRows, replyMeta } from './account-rows.ts';
import { ALLOWANCE_PREFIX } from '../contract/allowances.ts';
import type {
  JournalLine,
  Settle,
  Verify,
  VerifyResult,
  Witness,
  Witnessed,
} from '../contract/ledger-store.ts';
import type { ReplyMeta } from '../contract/reply.ts';
import { requestTime } from '../contract/request-ids.ts';
import { mayBeDeletedFree } from './retention.ts';

/** One command on an account, executed at `now`. */
export type Transition<Command, Reply> = (
  account: AccountRows | undefined,
  command: Command,
  now: number,
) => Reply;

/** A transition whose reply has `rolledBack` if one of the command's witnesses is missing. */
export function witnessed<Command extends Witnessed, Reply extends ReplyMeta>(
  run: (account: AccountRows | undefined, command: Command, now: number, rolledBack: boolean) => Reply,
): Transition<Command, Reply> {
  return (account, command, now) => {
    const rolledBack = isRolledBack(account, command);
    const reply = run(account, command, now, rolledBack);
    return rolledBack ? { ...reply, rolledBack } : reply;
  };
}

export const verify: Transition<Verify, VerifyResult> = witnessed((account, { witnesses }, now) => {
  if (!account) return { code: 'no_account', ...replyMeta(account, now) };
  const missing = witnesses.flatMap((witness, place) => (isPresent(account, witness) ? [] : [place]));
  return { code: 'ok', ...(missing.length > 0 && { missing }), ...replyMeta(account, now) };
});

/** Adds an admitted but unknown request as a witness of its own settle, unless it may be deleted because it cost nothing. */
export function withAdmission(account: AccountRows | undefined, command: Settle): Settle {
  const { requestId: id, wasAdmitted, amount, witnesses = [] } = command;
  if (!wasAdmitted || account?.request(id)) return command;
  const isFree = amount === 0n;
  return { ...command, witnesses: [...witnesses, { type: 'request', id, state: 'settled', isFree }] };
}

function isRolledBack(account: AccountRows | undefined, { witnesses }: Witnessed): boolean {
  if (!account || !witnesses) return false;
  return witnesses.some((witness) => !isPresent(account, witness));
}

/** Whether the witness is present, or may have been compacted or deleted since. */
function isPresent(account: AccountRows, witness: Witness): boolean {
  const { totals } = account;
  switch (witness.type) {
    case 'line': {
      if (witness.seq > totals.seq) return false;
      const line = account.line(witness.seq);
      return !line || (line.at === witness.at && (line.id === witness.id || isOfDueCredits(line)));
    }
    case 'request': {
      const row = account.request(witness.id);
      // Once deleted, its id may be in use again. What was held may have been voided without its holder's knowledge.
      const costNothing = witness.state === 'voided' || (witness.state === 'settled' && witness.isFree);
      if ((costNothing || (!row && witness.state === 'held')) && mayBeDeletedFree(totals, witness.id)) {
        return true;
      }
      if (!row) return requestTime(witness.id) <= totals.lowWater;
      if (witness.state === 'held') return row.state !== 'held' || row.amount >= witness.hold;
      return row.state === witness.state;
    }
    default:
      return account.fingerprint(witness.id) !== undefined;
  }
}

/** Any command may have expired credits or renewed an allowance, and written that line last. */
function isOfDueCredits({ type, id }: JournalLine): boolean {
  return type === 'x' || (type === 'g' && id.startsWith(ALLOWANCE_PREFIX));
}
