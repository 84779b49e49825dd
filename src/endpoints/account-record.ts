import { CallLimit } from '../async/call-limit.ts';
import { TooManyCallsError } from '../errors/key-errors.ts';
import type { Exchange } from '../http/exchange.ts';
import { sendJson } from '../http/respond.ts';
import type { Caller } from '../keys/caller.ts';
import { hasLimits } from '../keys/key-policy.ts';
import { policyOfTerms } from '../keys/key-terms.ts';
import type { LedgerStore } from '../ledger/contract/ledger-store.ts';

/** Reads of an account's usage at a time, in a process: each may read thousands of rows. */
const MAX_READS = 8;

export function accountReads(): CallLimit {
  return new CallLimit(MAX_READS, (max) => new TooManyCallsError(max));
}

/** Sends a record of the caller's own account, which no cache may store. */
export function sendRecord(exchange: Exchange, body: object): void {
  sendJson(exchange, 200, Buffer.from(JSON.stringify(body)), { 'cache-control': 'no-store' });
}

/**
 * The key whose usage and requests alone the caller sees: its own, if it has limits, is the host's or a session. Undefined for a
 * key that speaks for its account.
 */
export async function onlyKeyOf(
  { account, key, externalKey, session }: Caller,
  store: LedgerStore,
): Promise<string | undefined> {
  if (externalKey || session) return key;
  const status = await store.keyState(account, key);
  return !status || hasLimits(policyOfTerms(status)) ? key : undefined;
}
