/** When a final record may be deleted, in ms. */
export interface Deletion {
  readonly due: number;
  readonly id: string;
}

/**
 * Final records ordered by `due`, then id: a binary heap, without an object for each.
 *
 * A record that is saved again with another `due` is in it twice: the account compares the first one with the record.
 */
export class DeletionQueue {
  readonly #dues: number[] = [];
  readonly #ids: string[] = [];

  get first(): Deletion | undefined {
    return this.#at(0);
  }

  add({ due, id }: Deletion): void {
    const added = { due, id };
    let position = this.#ids.length;
    while (position > 0) {
      const above = (position - 1) >> 1;
      const parent = this.#at(above);
      if (!parent || !isDueBefore(added, parent)) break;
      this.#place(parent, position);
      position = above;
    }
    this.#place(added, position);
  }

  removeFirst(): void {
    const last = this.#at(this.#ids.length - 1);
    this.#dues.pop();
    this.#ids.pop();
    if (!last || this.#ids.length === 0) return;
    let position = 0;
    for (;;) {
      const left = this.#at(2 * position + 1);
      const right = this.#at(2 * position + 2);
      const isRight = left !== undefined && right !== undefined && isDueBefore(right, left);
      const child = isRight ? right : left;
      if (!child || !isDueBefore(child, last)) break;
      this.#place(child, position);
      position = 2 * position + (isRight ? 2 : 1);
    }
    this.#place(last, position);
  }

  #at(position: number): Deletion | undefined {
    const due = this.#dues[position];
    const id = this.#ids[position];
    return due === undefined || id === undefined ? undefined : { due, id };
  }

  #place({ due, id }: Deletion, position: number): void {
    this.#dues[position] = due;
    this.#ids[position] = id;
  }
}

export function isDueBefore(a: Deletion, b: Deletion): boolean {
  return a.due < b.due || (a.due === b.due && a.id < b.id);
}
