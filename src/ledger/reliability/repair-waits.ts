import { withTimeout } from '../../async/timeout.ts';
import { StoreUnavailableError } from '../contract/ledger-store.ts';

/** How long a command waits until its account has what it lost. */
const REPAIR_MS = 2000;

/**
 * Waits for repairs before an admit.
 *
 * @throws {StoreUnavailableError} nothing was admitted, whatever became of the repairs
 */
export async function untilRepaired(repairs: readonly Promise<unknown>[]): Promise<void> {
  try {
    await withTimeout(Promise.all(repairs), REPAIR_MS, () => {
      throw new StoreUnavailableError('no');
    });
  } catch (error) {
    throw error instanceof StoreUnavailableError ? new StoreUnavailableError('no', { cause: error }) : error;
  }
}

/** @throws {StoreUnavailableError} where a repair takes longer than a command may wait for it */
export async function inTime(repair: Promise<void>): Promise<void> {
  await withTimeout(repair, REPAIR_MS, () => {
    throw new StoreUnavailableError('no', { cause: new Error('the account is being repaired') });
  });
}
