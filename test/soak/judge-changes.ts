import type { JournalLine } from '../../src/index.ts';
import type { Books } from './books.ts';
import { type Evidence, toldLosses } from './evidence.ts';
import { isDocumentedLoss } from './judge-charges.ts';
import type { Change } from './operators.ts';

export interface ChangeDiscrepancy {
  readonly verdict: 'lost' | 'double' | 'wrong' | 'documented' | 'told';
  readonly change: Change;
  /** How often it is in the journal. */
  readonly found: number;
}

/** Each grant and adjustment that was acknowledged is in the journal once, as it was asked for. */
export function judgeChanges(evidence: Evidence): readonly ChangeDiscrepancy[] {
  const told = toldLosses(evidence.runs);
  return evidence.changes.flatMap((change) => {
    const lines = evidence.books.accounts
      .filter(({ name }) => name === change.account)
      .flatMap((account) => account.lines)
      .filter(({ id, type }) => id === change.id && type === (change.kind === 'grant' ? 'g' : 'a'));
    const verdict = verdictOf(change, lines, () =>
      told.has(change.id) ? 'told' : diedInARollback(change, evidence) ? 'documented' : 'lost',
    );
    return verdict ? [{ verdict, change, found: lines.length }] : [];
  });
}

/** @param whyLost - what is said of one that was acknowledged, and isn't there */
function verdictOf(
  { acknowledgedAt, amount }: Change,
  lines: readonly JournalLine[],
  whyLost: () => ChangeDiscrepancy['verdict'],
): ChangeDiscrepancy['verdict'] | undefined {
  const isWanted = acknowledgedAt !== undefined;
  if (lines.length > 1) return 'double';
  if (lines.length > 0) return isWanted && lines[0]!.amount === amount ? undefined : 'wrong';
  return isWanted ? whyLost() : undefined;
}

/** What doesn't add up: the journal of an account and its balance, a key that is gone, findings of the audit. */
export function judgeBooks({ books, keys }: Pick<Evidence, 'books' | 'keys'>): readonly string[] {
  return [
    ...books.findings.map(({ account, invariant, message }) => `${account}: ${invariant}: ${message}`),
    ...books.accounts.flatMap(unbalanced),
    ...keys.flatMap(({ account, keyId }) => {
      const found = books.accounts.find(({ name }) => name === account);
      if (!found) return [`${account}: it is gone`];
      return found.state.keys.some(({ key }) => key === keyId)
        ? []
        : [`${account}: its key ${keyId} is gone`];
    }),
  ];
}

function unbalanced({ name, state, lines }: Books['accounts'][number]): readonly string[] {
  let sum = 0n;
  for (const { type, amount } of lines) sum += type === 'g' || type === 'a' ? amount : -amount;
  const { available, held } = state;
  return sum === available + held
    ? []
    : [`${name}: its journal comes to ${sum}, and it has ${available} available and ${held} held`];
}

function diedInARollback({ asked, acknowledgedAt = 0 }: Change, { runs, timeline }: Evidence): boolean {
  const { at, place } = asked.at(-1)!;
  const run = runs.find(
    (each) => each.place === place && each.startedAt <= at && (each.endedAt ?? Infinity) >= at,
  );
  return run !== undefined && isDocumentedLoss(run, at, acknowledgedAt, timeline);
}
