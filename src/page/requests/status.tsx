import type { JSX } from 'preact';

import type { LoggedRequest } from '../../client/admin-api.generated.ts';
import { grouped, money, nanos } from '../format.ts';

/** A status in the color of its class. */
export function StatusBadge({ status }: { readonly status: number }): JSX.Element {
  const kind = status < 400 ? 'healthy' : status < 500 ? 'low' : 'ejected';
  return <span class={`badge ${kind}`}>{status}</span>;
}

/** An amount, or why there is none. */
export function chargeOf({ state, charged }: Pick<LoggedRequest, 'state' | 'charged'>): string {
  if (state === 'settled') return money(nanos(charged));
  return state === 'unsettled' ? 'not yet' : '–';
}

/** `12 in, 34 out`; undefined where nothing was counted. */
export function tokensOf(usage: LoggedRequest['usage']): string | undefined {
  if (!usage) return undefined;
  const { prompt_tokens: prompt, completion_tokens: completion, source } = usage;
  const tokens = `${grouped(Number(prompt))} in, ${grouped(Number(completion))} out`;
  return source === 'estimated' ? `${tokens}, estimated` : tokens;
}

/** How it ended, and why. */
export function endingOf({
  ending,
  finish_reason: reason,
}: Pick<LoggedRequest, 'ending' | 'finish_reason'>): string | undefined {
  return [ending, reason].filter((part) => part !== undefined).join(', ') || undefined;
}
