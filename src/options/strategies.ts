/** The orders in which a model's targets can be tried. */
export const STRATEGIES = [
  'ordered',
  'weighted',
  'cheapest',
  'fastest',
  'price',
  'throughput',
  'latency',
] as const;

/** The order in which a model's targets are tried. */
export type RoutingStrategy = (typeof STRATEGIES)[number];

/** The orders that clients can ask for. */
export type SortStrategy = Extract<RoutingStrategy, 'price' | 'throughput' | 'latency'>;

/** What clients say in `sort`: OpenRouter's words, then Vercel's. */
export const SORT_WORDS: ReadonlyMap<string, SortStrategy> = new Map([
  ['price', 'price'],
  ['throughput', 'throughput'],
  ['latency', 'latency'],
  ['cost', 'price'],
  ['tps', 'throughput'],
  ['ttft', 'latency'],
]);

/** OpenRouter's suffixes of model IDs that say the same. */
export const SORT_SUFFIXES: ReadonlyMap<string, SortStrategy> = new Map([
  [':nitro', 'throughput'],
  [':floor', 'price'],
]);
