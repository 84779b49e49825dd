import { ALLOWANCE_PREFIX } from './allowances.ts';

const REFUND_PREFIX = 'refund:';

/** Id under which the refund of a request is remembered, beside those of grants and adjustments. */
export function refundId(requestId: string): string {
  return `${REFUND_PREFIX}${requestId}`;
}

/** Prefix of the ids of sessions, among the keys of an account. Their rows are removed some time after they expired. */
export const SESSION_PREFIX = 'ses-';

/** The claim of the process that tops an account up. */
export function topUpClaim(account: string): string {
  return `top-up ${account}`;
}

/** The claim of the process that makes the daily round of maintenance. */
export const ROUND_CLAIM = 'daily round';

/** Prefixes of ids that the ledger gives: no grant or adjustment may have one. */
export const RESERVED_PREFIXES: readonly string[] = [ALLOWANCE_PREFIX, REFUND_PREFIX];
