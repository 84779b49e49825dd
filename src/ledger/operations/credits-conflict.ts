/** An account refused a change of its credits; `code` is stable and says why. */
export class CreditsConflictError extends Error {
  override readonly name = 'CreditsConflictError';
  readonly code:
    | 'conflict'
    | 'too_big'
    | 'too_many_lots'
    | 'too_many_allowances'
    | 'below_floor'
    | 'ended'
    | 'no_allowance'
    | 'not_settled'
    | 'more_than_charged'
    | 'no_account';

  constructor(code: CreditsConflictError['code'], account: string, id: string) {
    super(`${id} was not applied to account ${account}: ${REASONS[code]}`);
    this.code = code;
  }
}

const REASONS: Record<CreditsConflictError['code'], string> = {
  conflict: 'the id was used before with other parameters',
  too_big: 'the balance would exceed the largest supported amount',
  too_many_lots: 'the account has the maximum number of unused grants',
  too_many_allowances: 'the account has the maximum number of allowances',
  below_floor: 'the account has less than that available',
  ended: 'until has passed',
  no_allowance: 'there is no such allowance',
  not_settled: 'the request is not settled yet; if its gateway died, it can be refunded 24 hours after it',
  more_than_charged: 'that is more than the request was charged',
  no_account: 'there is no such account',
};
