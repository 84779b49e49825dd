import type { RequestRow } from '../../engine/account-rows.ts';

/** A row, and its position in the queue. */
export interface Queued {
  readonly row: RequestRow;
  /** The row's `due` when it was added, in ms. */
  due: number;
  position: number;
}

/**
 * Rows ordered by `due`, then id: a binary heap whose entries know their
 * position, so that any can be removed without a search.
 */
export class DueQueue {
  readonly #heap: Queued[] = [];

  get length(): number {
    return this.#heap.length;
  }

  get first(): Queued | undefined {
    return this.#heap[0];
  }

  add(entry: Queued): void {
    entry.due = entry.row.due;
    this.#rise(entry, this.#heap.length);
  }

  remove(entry: Queued): void {
    const last = this.#heap.pop();
    if (!last || last === entry) return;
    const parent = this.#heap[parentOf(entry.position)];
    if (parent && isBefore(last, parent)) this.#rise(last, entry.position);
    else this.#sink(last, entry.position);
  }

  /** Adds `ms` to the `due` of every row, which keeps their order. */
  move(ms: number): void {
    for (const entry of this.#heap) {
      entry.row.due += ms;
      entry.due = entry.row.due;
    }
  }

  #rise(entry: Queued, from: number): void {
    let position = from;
    for (;;) {
      const parent = this.#heap[parentOf(position)];
      if (!parent || !isBefore(entry, parent)) break;
      this.#place(parent, position);
      position = parentOf(position);
    }
    this.#place(entry, position);
  }

  #sink(entry: Queued, from: number): void {
    let position = from;
    for (;;) {
      const left = this.#heap[2 * position + 1];
      const right = this.#heap[2 * position + 2];
      const child = left && right && isBefore(right, left) ? right : left;
      if (!child || !isBefore(child, entry)) break;
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

function isBefore(a: Queued, b: Queued): boolean {
  return a.due < b.due || (a.due === b.due && a.row.id < b.row.id);
}

/** Index of the parent; -1, which has no entry, for the root. */
function parentOf(position: number): number {
  return ((position + 1) >> 1) - 1;
}
