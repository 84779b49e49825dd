import type { DimensionRow, UsageRow } from '../../contract/ledger-store.ts';
import { compactUsage } from './lua/compact-usage.ts';
import { dimensionRow, isOfDimension, usageDay, usageRow } from './lua/row-fields.ts';
import { scanHash } from './scan-hash.ts';
import type { ScriptRunner } from './script-runner.ts';

/** Usage rows, read page by page, so that an account with many rows doesn't block Redis. */
export class UsageRows {
  readonly #runner: ScriptRunner;

  constructor(runner: ScriptRunner) {
    this.#runner = runner;
  }

  /** The rows of a range of days, both inclusive, of all keys or one. */
  async read(account: string, fromDay: string, toDay: string, key?: string): Promise<UsageRow[]> {
    // A scan may return a field twice.
    const rows = new Map<string, UsageRow>();
    const pattern = key === undefined ? patternOf(fromDay, toDay) : `* ${key} *`;
    for await (const row of scanHash(this.#runner, this.#runner.keys.usage(account), pattern)) {
      const day = usageDay(row[0]);
      if (isOfDimension(row[0])) continue;
      if (day >= fromDay && day <= toDay) rows.set(row[0], usageRow(row));
    }
    return [...rows.values()];
  }

  /** The same of one dimension. */
  async readBy(account: string, dimension: string, fromDay: string, toDay: string): Promise<DimensionRow[]> {
    const rows = new Map<string, DimensionRow>();
    const pattern = `* :${dimension} *`;
    for await (const fieldAndCounts of scanHash(this.#runner, this.#runner.keys.usage(account), pattern)) {
      const row = dimensionRow(fieldAndCounts);
      if (row?.dimension !== dimension || row.day < fromDay || row.day > toDay) continue;
      rows.set(row.value + row.day, row);
    }
    return [...rows.values()];
  }

  /** Compacts the rows of earlier days. */
  async compact(account: string, beforeDay: string): Promise<void> {
    const fields = new Set<string>();
    for await (const [field] of scanHash(this.#runner, this.#runner.keys.usage(account)))
      if (usageDay(field) < beforeDay) fields.add(field);
    const old = [...fields];
    for (let from = 0; from < old.length; from += COMPACTED_BY_SCRIPT) {
      const some = old.slice(from, from + COMPACTED_BY_SCRIPT);
      await this.#runner.run(compactUsage, this.#runner.keys.ofAccount(account), some);
    }
  }
}

/**
 * Of the rows without a dimension, which may be few among many: the days from 1997 to 2243 have five digits. A pattern for a
 * number of any length would match the others, too.
 */
function patternOf(fromDay: string, toDay: string): string {
  return fromDay >= '1997-05-19' && toDay <= '2243-10-16' ? '????? [^:]*' : '*';
}

/** Rows that one script compacts. */
const COMPACTED_BY_SCRIPT = 500;
