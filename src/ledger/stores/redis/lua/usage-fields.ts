import { isAborted, isError } from '../../../engine/usage-counters.ts';
import type { Settle, UsageRow, Void } from '../../../contract/ledger-store.ts';
import { dayOf } from '../../../contract/usage.ts';
import { withBlanks } from './request-fields.ts';

/** The counts of a settle, as an argument of its script. */
export function settledCounts({ usage }: Pick<Settle, 'usage'>): string {
  const { ending, promptTokens, cachedTokens, completionTokens, reasoningTokens, cost = 0n } = usage;
  const tokens = [promptTokens, cachedTokens, completionTokens, reasoningTokens];
  return [Number(isError({ ending, usage })), Number(isAborted({ ending })), ...tokens, cost].join(' ');
}

/** The counts of a void, as an argument of its script. */
export function voidedCounts({ ending }: Pick<Void, 'ending'>): string {
  return `${isError({ ending }) ? 1 : 0} ${isAborted({ ending }) ? 1 : 0} 0 0 0 0 0`;
}

/** Parses a usage row. */
export function usageRow([field, packed]: readonly [field: string, packed: string]): UsageRow {
  const [, , key = '', model = ''] = /^(\d+) (\S*) (\S*)$/.exec(field) ?? [];
  const [requests = '', errors, aborted, prompt, cached, completion, reasoning, charged = '', cost = ''] =
    packed.split(' ');
  return {
    day: usageDay(field),
    key,
    model: withBlanks(model),
    requests: Number(requests),
    errors: Number(errors),
    aborted: Number(aborted),
    promptTokens: Number(prompt),
    cachedTokens: Number(cached),
    completionTokens: Number(completion),
    reasoningTokens: Number(reasoning),
    charged: BigInt(charged),
    cost: BigInt(cost),
  };
}

/** The day of a usage row, from its field. */
export function usageDay(field: string): string {
  return dayOf(Number(field.slice(0, field.indexOf(' '))) * DAY_MS);
}

const DAY_MS = 24 * 60 * 60 * 1000;
