import type {
  Ending,
  IdempotencyKey,
  FinalState,
  RequestRecord,
  Void,
} from '../../../contract/ledger-store.ts';
import { ENDINGS } from '../../../contract/usage.ts';

/** What the row of a request says, as the scripts keep it. */
export function requestRecord(id: string, row: string): RequestRecord {
  const [state = '', amount = '', checkpoint = '', due, , , apiKey = '', ...rest] = row.split(' ');
  const [key, body] = rest[0]?.startsWith('=') ? [] : rest.splice(0, 2);
  const [model = '', line = '', ending = NONE, provider = NONE] = rest;
  return {
    id,
    state: requestState(state),
    amount: BigInt(amount),
    key: apiKey,
    checkpoint: BigInt(checkpoint),
    due: Number(due),
    ...(key !== undefined && body !== undefined && { idempotencyKey: { key, body } }),
    ...(model !== '=' && { model: withBlanks(model.slice(1)) }),
    ...(line !== NONE && { line: BigInt(line) }),
    ...endingField(ending),
    ...(provider !== NONE && { provider: withBlanks(provider) }),
  };
}

/** How a voided request ended, and where, as its row has it. */
export function endedFields({ ending, provider }: Pick<Void, 'ending' | 'provider'>): string {
  return `${ending ?? NONE} ${provider === undefined ? NONE : withoutBlanks(provider)}`;
}

/** A name as one field among others, which blanks part, and which isn't taken for none. */
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

/** The letter that a request's row and the scripts' replies have for a state. */
export function requestState(letter: string): RequestRecord['state'] {
  return letter === 'H' ? 'held' : finalState(letter);
}

/** As `requestState`, where it can't be held. */
export function finalState(letter: string): FinalState {
  if (letter === 'S') return 'settled';
  if (letter === 'V') return 'voided';
  return 'expired';
}

/** Hashes of an idempotency key and of what was asked under it; empty where there is none. */
export function idempotencyTerms({
  idempotencyKey,
}: {
  readonly idempotencyKey?: IdempotencyKey;
}): [key: string, body: string] {
  return [idempotencyKey?.key ?? '', idempotencyKey?.body ?? ''];
}
