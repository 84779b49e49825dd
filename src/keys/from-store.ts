import { CreditStoreUnavailableError } from '../errors/credit-errors.ts';
import { StoreUnavailableError } from '../ledger/contract/ledger-store.ts';

/** @throws {CreditStoreUnavailableError} if the store did not answer */
export async function fromStore<T>(query: () => T | Promise<T>): Promise<T> {
  try {
    return await query();
  } catch (error) {
    throw error instanceof StoreUnavailableError ? new CreditStoreUnavailableError(error) : error;
  }
}
