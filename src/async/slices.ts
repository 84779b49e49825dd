/** Most time of all slices in one turn of the event loop, in ms. */
const MAX_MS = 0.25;
/** Items between two readings of the clock. */
const ITEMS_PER_READING = 16;

/** When the first slice in this turn of the event loop began; undefined if there was none. */
let startedAt: number | undefined;
const waiting: (() => void)[] = [];

/** Waits for another turn of the event loop. Each turn goes to one waiter, the one that has waited longest. */
export function nextTurn(): Promise<void> {
  startTurn();
  return new Promise((resolve) => {
    waiting.push(resolve);
  });
}

function startTurn(): number {
  if (startedAt === undefined) {
    startedAt = performance.now();
    setImmediate(endTurn);
  }
  return startedAt;
}

function endTurn(): void {
  startedAt = undefined;
  const next = waiting.shift();
  if (!next) return;
  startTurn();
  next();
}

/** Does work on each item in slices: all slices in one turn of the event loop take a quarter of a millisecond together. */
export async function forEachInSlices<Item>(
  items: readonly Item[],
  work: (item: Item) => void,
): Promise<void> {
  for (let from = 0; from < items.length; from += ITEMS_PER_READING) {
    if (performance.now() - startTurn() >= MAX_MS) await nextTurn();
    for (const item of items.slice(from, from + ITEMS_PER_READING)) work(item);
  }
}

/** The results of work on each item, flattened, as of `Array.flatMap`. */
export async function flatMapInSlices<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => readonly Result[],
): Promise<Result[]> {
  const results: Result[] = [];
  await forEachInSlices(items, (item) => {
    results.push(...work(item));
  });
  return results;
}
