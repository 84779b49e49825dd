import type { DimensionRows } from '../../engine/account-rows.ts';
import { addCounts, type Mutable } from '../../engine/usage-counters.ts';
import type { DimensionRow } from '../../contract/ledger-store.ts';

/** Usage rows by dimension. */
export class MemoryDimensions implements DimensionRows {
  /** "day dimension" -> value -> row. */
  readonly #rows = new Map<string, Map<string, Mutable<DimensionRow>>>();

  has(day: string, dimension: string, value: string): boolean {
    return this.#rows.get(`${day} ${dimension}`)?.has(value) ?? false;
  }

  values(day: string, dimension: string): number {
    return this.#rows.get(`${day} ${dimension}`)?.size ?? 0;
  }

  count(usage: DimensionRow): void {
    const { day, dimension, value } = usage;
    const place = `${day} ${dimension}`;
    let rows = this.#rows.get(place);
    if (!rows) this.#rows.set(place, (rows = new Map()));
    const row = rows.get(value);
    if (row) addCounts(row, usage);
    else rows.set(value, { ...usage });
  }

  compact(beforeDay: string): void {
    for (const place of this.#rows.keys()) if (place < beforeDay) this.#rows.delete(place);
  }

  /** Copies: the rows go on counting. */
  all(): DimensionRow[] {
    return [...this.#rows.values()].flatMap((rows) => Array.from(rows.values(), (row) => ({ ...row })));
  }
}
