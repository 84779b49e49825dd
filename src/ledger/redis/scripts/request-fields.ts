import type { FinalState, RequestRecord } from '../../ledger.ts';

/** What the row of a request says, as the scripts keep it. */
export function requestRecord(id: string, row: string): RequestRecord {
  const [state = '', amount = '', checkpoint = '', due, , , apiKey = '', key, body] = row.split(' ');
  return {
    id,
    state: requestState(state),
    amount: BigInt(amount),
    key: apiKey,
    checkpoint: BigInt(checkpoint),
    due: Number(due),
    ...(key !== undefined && body !== undefined && { idempotencyKey: { key, body } }),
  };
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
