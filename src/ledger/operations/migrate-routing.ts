import type { LedgerStore } from '../contract/ledger-store.ts';
import { MAX_COSTS } from '../contract/routing.ts';

/**
 * Copies what operators have changed of the routing, and what providers have cost in the running periods, to a store that has none of it.
 * A store without a place for it is left out.
 */
export async function migrateRouting(
  { routing: from }: LedgerStore,
  { routing: to }: LedgerStore,
): Promise<void> {
  if (!from || !to) return;
  const old = await from.read();
  const there = await to.read();
  if (old.document !== undefined && there.version === '') {
    await to.write({ from: '', to: old.version, document: old.document });
  }
  // One batch, which counts once if the migration is repeated.
  if (old.costs.length > 0 && there.costs.length === 0) {
    await to.addCosts({ writer: 'migration', number: 1, costs: old.costs.slice(0, MAX_COSTS) });
  }
}
