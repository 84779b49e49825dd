import type { Credits } from '../../../client/admin-api.generated.ts';
import { date, money, nanos, periodText } from '../../../page/format.ts';
import { budgetsLeft } from '../../../page/keys/budgets.ts';
import { type EndingCredits, type Pace, renewalsOf } from './pace.ts';

/** What the customer should know or do now, the worst first. */
export function warningsOf(credits: Credits, { state, ending }: Pace): readonly string[] {
  if (credits.frozen) {
    return ['This account is on hold, and requests are rejected. Your credits are safe: contact support.'];
  }
  const warnings = [creditWarning(credits, state), budgetWarning(credits), endingWarning(ending)];
  return warnings.filter((warning) => warning !== undefined);
}

function creditWarning(credits: Credits, state: Pace['state']): string | undefined {
  const { granted, credit_limit: limit } = credits;
  if (state === 'low') return 'Your credits are running low. Add more, so that no request is rejected.';
  if (state !== 'empty') return undefined;
  if (nanos(limit) > 0n) {
    return 'You owe as much as you may, and requests are rejected. Pay what you owe to go on.';
  }
  const [next] = renewalsOf(credits).toSorted();
  if (next !== undefined) {
    return `Your credits are used up, and requests are rejected. Add more, or wait until your allowance is renewed on ${date(next)}.`;
  }
  return nanos(granted) === 0n
    ? 'You have no credits yet. Requests are accepted once you add some.'
    : 'Your credits are used up, and requests are rejected. Add more to go on.';
}

/** Of several budgets that are used up, the one that is renewed last is what requests wait for. */
function budgetWarning({ policy, limits }: Credits): string | undefined {
  const [spent] = budgetsLeft({ ...policy, ...limits })
    .filter(({ left }) => nanos(left) <= 0n)
    .toSorted((one, other) => resetOf(other) - resetOf(one));
  if (!spent) return undefined;
  const { amount, per, resets_at: at } = spent;
  const budget = `${money(nanos(amount))} ${periodText(per)}`;
  return `Your account's budget of ${budget} is used up, and requests are rejected${at === undefined ? '' : ` until ${date(at)}`}.`;
}

function resetOf({ resets_at: at }: { readonly resets_at?: string }): number {
  return at === undefined ? Number.MAX_VALUE : Date.parse(at);
}

function endingWarning([first, ...others]: readonly EndingCredits[]): string | undefined {
  if (!first) return undefined;
  const more = others.length === 0 ? '' : ', and more after that';
  return `At this pace ${money(first.amount)} of your credits ends unspent on ${date(first.at)}${more}.`;
}
