import type { Credits } from '../../../client/admin-api.generated.ts';
import { nanos } from '../../../page/format.ts';
import { renewalOf } from '../../../page/renewals.ts';
import type { UsageRow } from '../../../page/usage/range-usage.ts';
import { sum } from '../../../page/usage/sums.ts';

/** How long the credits last, and whether that is soon. */
export interface Pace {
  readonly state: 'fine' | 'low' | 'empty';
  /** A sentence; undefined if nothing is known. */
  readonly text: string | undefined;
  /** Credits that end within the next days and are not spent by then at this pace, the first ones first. */
  readonly ending: readonly EndingCredits[];
}

export interface EndingCredits {
  /** Nano-dollars. */
  readonly amount: bigint;
  /** An ISO time. */
  readonly at: string;
}

export const PACE_DAYS = 7;
const DAY_MS = 86_400_000;
const LOW_DAYS = 3;
/** What ends later than this is no news. */
const ENDING_DAYS = 7;

/** What can be spent, in nano-dollars: the balance, and what the account may owe. */
export function availableOf({ balance, credit_limit: limit }: Credits): bigint {
  return nanos(balance) + nanos(limit);
}

/** When allowances are renewed, as ISO times. */
export function renewalsOf({ allowances }: Credits): readonly string[] {
  return allowances.flatMap((each) => renewalOf(each) ?? []);
}

/**
 * @param rows - usage of the last `PACE_DAYS` days; undefined if that of the account isn't known
 * @param now - in ms
 */
export function paceOf(credits: Credits, rows: readonly UsageRow[] | undefined, now: number): Pace {
  if (!rows) return { state: availableOf(credits) <= 0n ? 'empty' : 'fine', text: undefined, ending: [] };
  const perDay = Number(sum(rows).charged) / PACE_DAYS;
  const { days, ending } = spend(credits, perDay, now);
  if (availableOf(credits) <= 0n) return { state: 'empty', text: undefined, ending };
  if (perDay === 0) return { state: 'fine', text: undefined, ending };
  const isRenewed = renewalsOf(credits).some((at) => Date.parse(at) - now < days * DAY_MS);
  return {
    state: days < LOW_DAYS && !isRenewed ? 'low' : 'fine',
    text: `Lasts ${spanOf(days)} at the pace of the last ${PACE_DAYS} days`,
    ending,
  };
}

/** Spends what there is in its order: each grant until it is empty or ends. */
function spend(
  credits: Credits,
  perDay: number,
  now: number,
): { readonly days: number; readonly ending: readonly EndingCredits[] } {
  const ending: EndingCredits[] = [];
  let days = 0;
  let onAccount = Number(availableOf(credits));
  for (const { remaining, expires_at: at, allowance } of credits.grants) {
    const left = Number(nanos(remaining));
    onAccount -= left;
    const endsIn = at === null ? Infinity : (Date.parse(at) - now) / DAY_MS;
    // Without a pace nothing is spent, however long it is there.
    const spent = perDay === 0 ? 0 : Math.min(left, Math.max(0, endsIn - days) * perDay);
    if (spent > 0) days += spent / perDay;
    const lost = BigInt(Math.round(left - spent));
    // What is left of an allowance is meant to end.
    if (at !== null && allowance === null && endsIn < ENDING_DAYS && lost > 0n) {
      ending.push({ amount: lost, at });
    }
  }
  // What may still be owed comes last.
  if (perDay > 0) days += Math.max(0, onAccount) / perDay;
  return { days, ending };
}

function spanOf(days: number): string {
  if (days < 1) return 'less than a day';
  if (days > 365) return 'more than a year';
  return days < 2 ? 'about a day' : `about ${Math.floor(days)} days`;
}
