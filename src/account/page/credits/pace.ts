import type { UsageRow } from '../../../page/usage/range-usage.ts';
import { nanos } from '../../../page/format.ts';
import { sum } from '../../../page/usage/sums.ts';

/** How long a balance lasts, and whether that is soon. */
export interface Pace {
  readonly state: 'fine' | 'low' | 'empty';
  /** A sentence; undefined if nothing is known. */
  readonly text: string | undefined;
}

export const PACE_DAYS = 7;
const LOW_DAYS = 3;

/** @param rows - usage of the last `PACE_DAYS` days */
export function paceOf(balance: string, rows: readonly UsageRow[]): Pace {
  const left = Number(nanos(balance));
  const perDay = Number(sum(rows).charged) / PACE_DAYS;
  if (left <= 0) return { state: 'empty', text: undefined };
  if (perDay === 0) return { state: 'fine', text: undefined };
  const days = left / perDay;
  const text = `Lasts ${spanOf(days)} at the pace of the last ${PACE_DAYS} days`;
  return { state: days < LOW_DAYS ? 'low' : 'fine', text };
}

function spanOf(days: number): string {
  if (days < 1) return 'less than a day';
  if (days > 365) return 'more than a year';
  return days < 2 ? 'about a day' : `about ${Math.floor(days)} days`;
}
