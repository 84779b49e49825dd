import type { RequestRow } from './account-rows.ts';

/** A row's place in the one queue it is in. */
export interface Queued {
  readonly row: RequestRow;
  queue: DueQueue | undefined;
  position: number;
}

/**
 * Rows ordered by `due`, then id: a binary heap in which every entry knows its
 * position, so that any can be removed without a search.
 *
 * A row's `due` must not change while it is in the queue.
 */
export class DueQueue {
  readonly #heap: Queued[] = [];

  get first(): RequestRow | undefined {
    return this.#heap[0]?.row;
  }

  add(entry: Queued): void {
    entry.queue = this;
    this.#rise(entry, this.#heap.length);
  }

  remove(entry: Queued): void {
    const last = this.#heap.pop();
    entry.queue = undefined;
    if (!last || last === entry) return;
    const above = this.#heap[(entry.position - 1) >> 1];
    if (entry.position > 0 && above && isBefore(last.row, above.row)) this.#rise(last, entry.position);
    else this.#sink(last, entry.position);
  }

  #rise(entry: Queued, from: number): void {
    let position = from;
    while (position > 0) {
      const parent = this.#heap[(position - 1) >> 1];
      if (!parent || !isBefore(entry.row, parent.row)) break;
      this.#place(parent, position);
      position = (position - 1) >> 1;
    }
    this.#place(entry, position);
  }

  #sink(entry: Queued, from: number): void {
    let position = from;
    for (;;) {
      const left = this.#heap[2 * position + 1];
      const right = this.#heap[2 * position + 2];
      const child = right && left && isBefore(right.row, left.row) ? right : left;
      if (!child || !isBefore(child.row, entry.row)) break;
      const next = child.position;
      this.#place(child, position);
      position = next;
    }
    this.#place(entry, position);
  }

  #place(entry: Queued, position: number): void {
    this.#heap[position] = entry;
    entry.position = position;
  }
}

export function isBefore(a: RequestRow, b: RequestRow): boolean {
  return a.due < b.due || (a.due === b.due && a.id < b.id);
}
