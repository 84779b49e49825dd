import { existsSync } from 'node:fs';

import { withTimeout } from '../../async/timeout.ts';
import type { LedgerStore } from '../../ledger/contract/ledger-store.ts';
import { openStore } from '../../ledger/stores/open-store.ts';

/** Why a store can't be used; undefined if it can. A missing SQLite file is no problem, and is not created. */
export async function storeProblem(
  given: string | LedgerStore,
  timeoutMs: number,
): Promise<string | undefined> {
  const file = typeof given === 'string' ? /^sqlite:(.+)/s.exec(given)?.[1] : undefined;
  if (file !== undefined && !existsSync(file)) return undefined;
  const store = openStore(given);
  const probe = async (): Promise<string | undefined> => {
    try {
      await store.ready?.();
      await store.balance('check');
      return undefined;
    } catch (error) {
      const cause = error instanceof Error ? (error.cause ?? error) : error;
      return cause instanceof Error ? cause.message : String(cause);
    }
  };
  const problem = await withTimeout(probe(), timeoutMs, () => `no answer within ${timeoutMs} ms`);
  await store.close().catch(() => {});
  return problem;
}
