import {
  type RequestLogPage,
  type RequestLogRow,
  type RequestLogStore,
  TRIM_STEP,
} from '../../contract/request-log.ts';

/** Most rows that are kept, whatever `requestLogMax` says: they are in the heap. */
const MAX_ROWS = 10_000;

/** A request log in this process's memory: at most 10,000 rows. */
export class MemoryRequestLog implements RequestLogStore {
  /** In the order of ids. */
  readonly #rows: RequestLogRow[] = [];

  async append(rows: readonly RequestLogRow[]): Promise<void> {
    for (const row of rows) {
      const last = this.#rows.at(-1);
      if (!last || last.id < row.id) {
        this.#rows.push(row);
        continue;
      }
      const index = this.#indexOf(row.id);
      this.#rows.splice(index, this.#rows[index]?.id === row.id ? 1 : 0, row);
    }
    if (this.#rows.length > MAX_ROWS) this.#rows.splice(0, this.#rows.length - MAX_ROWS);
  }

  async find(id: string): Promise<RequestLogRow | undefined> {
    const row = this.#rows[this.#indexOf(id)];
    return row?.id === id ? row : undefined;
  }

  async page({ account, from, before, limit }: RequestLogPage): Promise<readonly RequestLogRow[]> {
    const found: RequestLogRow[] = [];
    const first = this.#indexOf(from);
    for (let index = this.#indexOf(before) - 1; index >= first && found.length < limit; index--) {
      const row = this.#rows[index];
      if (row && (account === undefined || row.account === account)) found.push(row);
    }
    return found;
  }

  async trim(before: string, max: number): Promise<number> {
    const surplus = Math.max(this.#indexOf(before), this.#rows.length - max);
    return this.#rows.splice(0, Math.min(surplus, TRIM_STEP)).length;
  }

  async forget(account: string, before?: string): Promise<void> {
    const kept = this.#rows.filter(
      (row) => row.account !== account || (before !== undefined && row.id >= before),
    );
    this.#rows.splice(0, this.#rows.length, ...kept);
  }

  /** The index of the first row whose id is not before this one. */
  #indexOf(id: string): number {
    let [low, high] = [0, this.#rows.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#rows[middle]?.id ?? '') < id) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
