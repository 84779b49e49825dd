import type {
  DimensionRow,
  Ending,
  IdempotencyKey,
  FinalState,
  RequestRecord,
  Void,
  Witnessed,
  Settle,
  UsageRow,
} from '../../../contract/ledger-store.ts';
import { DAY_MS, ENDINGS, dayOf, type UsageCounts } from '../../../contract/usage.ts';
import { endUserOfRow, endUserRowId } from '../../../engine/account-rows.ts';
import { isAborted, isError } from '../../../engine/usage-counters.ts';

/** Parses the row of a request. */
export function requestRecord(id: string, row: string): RequestRecord {
  const [state = '', amount = '', checkpoint = '', due, mark = '', , apiKey = '', ...rest] = row.split(' ');
  const [key, body] = rest[0]?.startsWith('=') ? [] : rest.splice(0, 2);
  const [model = '', line = '', ending = NONE, provider = NONE] = rest;
  return {
    id,
    state: requestState(state),
    amount: BigInt(amount),
    key: apiKey,
    ...(/^\d+!?@/.test(mark) && { inAccount: true }),
    ...(mark.includes('>') && { endUser: endUserOfRow(mark.slice(mark.indexOf('>') + 1)) }),
    checkpoint: BigInt(checkpoint),
    due: Number(due),
    ...(key !== undefined && body !== undefined && { idempotencyKey: { key, body } }),
    ...(model !== '=' && { model: withBlanks(model.slice(1)) }),
    ...(line !== NONE && { line: BigInt(line) }),
    ...endingField(ending),
    ...(provider !== NONE && { provider: withBlanks(provider) }),
  };
}

/** Ending and provider of a voided request, in the format of its row. */
export function endedFields({ ending, provider }: Pick<Void, 'ending' | 'provider'>): string {
  return `${ending ?? NONE} ${provider === undefined ? NONE : withoutBlanks(provider)}`;
}

/** Encodes a name as a field of a row: without blanks, and distinct from `-`, which means none. */
export function withoutBlanks(name: string): string {
  return name === NONE ? '%2D' : name.replaceAll(/[\s%]/g, encodeURIComponent);
}

export function withBlanks(field: string): string {
  return decodeURIComponent(field);
}

const NONE = '-';

function endingField(word: string): { ending?: Ending } {
  const ending = ENDINGS.find((each) => each === word);
  return ending ? { ending } : {};
}

/** The state for its letter in rows and replies. */
export function requestState(letter: string): RequestRecord['state'] {
  return letter === 'H' ? 'held' : finalState(letter);
}

/** Like `requestState`, for a request that is not held. */
export function finalState(letter: string): FinalState {
  if (letter === 'S') return 'settled';
  if (letter === 'V') return 'voided';
  return 'expired';
}

/** The end user of a command, as in the id of its row; empty where there is none. */
export function endUserTerm({ endUser }: { readonly endUser?: string | undefined }): string {
  return endUser === undefined ? '' : endUserRowId(endUser).slice(1);
}

/** Hashes of an idempotency key and of its body; empty where there is none. */
export function idempotencyTerms({
  idempotencyKey,
}: {
  readonly idempotencyKey?: IdempotencyKey;
}): [key: string, body: string] {
  return [idempotencyKey?.key ?? '', idempotencyKey?.body ?? ''];
}

/** The witnesses of a command as arguments of its script; see `is_present`. */
export function witnessTerms({ witnesses = [] }: Witnessed): string[] {
  return witnesses.map((witness) => {
    if (witness.type === 'line') return `${witness.seq} ${witness.at} ${witness.id}`;
    if (witness.type === 'payment') return `P ${witness.id}`;
    if (witness.state === 'held') return `H ${witness.hold} ${witness.id}`;
    const settled = witness.isFree ? 'F' : 'S';
    return `${witness.state === 'settled' ? settled : 'V'} ${witness.id}`;
  });
}

/** The counts of a settle, as an argument of its script. */
export function settledCounts({ usage, dimensions }: Pick<Settle, 'usage' | 'dimensions'>): string {
  const { ending, promptTokens, cachedTokens, completionTokens, reasoningTokens, cost = 0n } = usage;
  const tokens = [promptTokens, cachedTokens, completionTokens, reasoningTokens];
  const counts = [Number(isError({ ending, usage })), Number(isAborted({ ending })), ...tokens, cost];
  return counts.join(' ') + dimensionTerms({ dimensions });
}

/** The counts of a void, as an argument of its script. */
export function voidedCounts({ ending, dimensions }: Pick<Void, 'ending' | 'dimensions'>): string {
  const counts = `${isError({ ending }) ? 1 : 0} ${isAborted({ ending }) ? 1 : 0} 0 0 0 0 0`;
  return counts + dimensionTerms({ dimensions });
}

/** The dimensions of a request, each after a blank, as an argument of a script; empty where there are none. */
export function dimensionTerms({ dimensions }: Pick<Settle, 'dimensions'>): string {
  if (!dimensions) return '';
  return Object.entries(dimensions)
    .map(([name, value]) => ` ${name}=${encodeURIComponent(value)}`)
    .join('');
}

/** Parses a usage row. */
export function usageRow([field, packed]: readonly [field: string, packed: string]): UsageRow {
  const [, , key = '', model = ''] = /^(\d+) (\S*) (\S*)$/.exec(field) ?? [];
  return { day: usageDay(field), key, model: withBlanks(model), ...usageCounts(packed) };
}

/** Whether it belongs to a dimension: its row, or how many values it has on a day. */
export function isOfDimension(field: string): boolean {
  return field.startsWith(':', field.indexOf(' ') + 1);
}

/** Parses a usage row of a dimension; undefined for a number of values. */
export function dimensionRow([field, packed]: readonly [field: string, packed: string]):
  | DimensionRow
  | undefined {
  const [, dimension, value] = /^\d+ :(\S+) (\S*)$/.exec(field) ?? [];
  if (dimension === undefined || value === undefined) return undefined;
  return { day: usageDay(field), dimension, value: decodeURIComponent(value), ...usageCounts(packed) };
}

function usageCounts(packed: string): UsageCounts {
  const [requests = '', errors, aborted, prompt, cached, completion, reasoning, charged = '', cost = ''] =
    packed.split(' ');
  return {
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
