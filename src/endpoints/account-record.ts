import { CreditStoreUnavailableError } from '../errors/credit-errors.ts';
import type { Exchange } from '../http/exchange.ts';
import { sendJson } from '../http/respond.ts';
import { StoreUnavailableError } from '../ledger/contract/ledger-store.ts';

/** Sends a record of the caller's own account, which no cache may store. */
export function sendRecord(exchange: Exchange, body: object): void {
  sendJson(exchange, 200, Buffer.from(JSON.stringify(body)), { 'cache-control': 'no-store' });
}

/** @throws {CreditStoreUnavailableError} if the store did not answer */
export async function fromStore<T>(query: () => Promise<T>): Promise<T> {
  try {
    return await query();
  } catch (error) {
    throw error instanceof StoreUnavailableError ? new CreditStoreUnavailableError(error) : error;
  }
}
