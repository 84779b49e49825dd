/** When an allowance is renewed, as an ISO time; undefined if it ends before: no period begins at its end, or after it. */
export function renewalOf(allowance: {
  readonly resets_at: string;
  readonly until?: string;
}): string | undefined {
  const { resets_at: at, until } = allowance;
  return until === undefined || Date.parse(at) < Date.parse(until) ? at : undefined;
}
