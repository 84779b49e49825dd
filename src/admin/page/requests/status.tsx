import type { JSX } from 'preact';

import type { LoggedRequest } from '../../../client/admin-api.generated.ts';
import { money, nanos } from '../format.ts';

/** A status in the color of its class. */
export function StatusBadge({ status }: { readonly status: number }): JSX.Element {
  const kind = status < 400 ? 'healthy' : status < 500 ? 'low' : 'ejected';
  return <span class={`badge ${kind}`}>{status}</span>;
}

/** An amount, or why there is none. */
export function chargeOf({ state, charged }: LoggedRequest): string {
  if (state === 'settled') return money(nanos(charged));
  return state === 'unsettled' ? 'not yet' : '–';
}
