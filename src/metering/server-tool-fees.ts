import type { NanoDollars } from '../ledger/contract/money.ts';
import type { Price } from './price.ts';
import type { Usage } from './usage-dialects.ts';

/** A requested feature that the provider may bill beside tokens. */
export interface AskedFeature {
  /** The name in a model's `serverTools`: a tool's type, a built-in function, a field, a content part. */
  readonly name: string;
  readonly kind: 'tool' | 'field' | 'part' | 'account file';
  /** The path of its first occurrence, for the error. */
  readonly path: string;
  /** Number of occurrences, for content parts, which are billed each; a tool counts once, and the provider decides on its calls. */
  readonly times: number;
}

/** How usage counts a tool's calls: as searches, as calls of all tools together, or not at all. */
export type CountedAs = 'searches' | 'calls' | 'nothing';

/** The price of a tool that the provider runs. */
export interface ServerTool {
  readonly fee: NanoDollars;
  /** What the provider bills per call; undefined if not configured. */
  readonly cost: NanoDollars | undefined;
  readonly atMost: number;
  /** For a tool that is not counted, `atMost` calls are charged. */
  readonly countedAs: CountedAs;
}

export type ServerTools = ReadonlyMap<string, ServerTool>;

/** The highest expected fees of a request. */
export function feesAtMost(asked: readonly AskedFeature[], tools: ServerTools): NanoDollars {
  return asked.reduce((sum, feature) => sum + feeAtMost(feature, tools.get(feature.name)), 0n);
}

/**
 * The fees charged for the features, in addition to the price's own fee for searches.
 *
 * @param usage - as reported by the provider; undefined if it reported none
 */
export function feesOf(
  asked: readonly AskedFeature[],
  tools: ServerTools,
  usage: Usage | undefined,
  { webSearch }: Pick<Price, 'webSearch'>,
): NanoDollars {
  if (!usage) return feesAtMost(asked, tools);
  let fees = 0n;
  let search: NanoDollars | undefined;
  /** Of search tools that are not counted by their own name, but may be by the usage. */
  let searchesAtMost = 0n;
  const isSole = asked.filter(({ name }) => tools.get(name)?.countedAs === 'calls').length === 1;
  for (const feature of asked) {
    const tool = tools.get(feature.name);
    if (tool?.countedAs === 'searches') {
      // One count for all search tools: the highest fee applies.
      if (search === undefined || tool.fee > search) search = tool.fee;
      continue;
    }
    const isCounted = tool?.countedAs === 'calls' && isSole;
    const fee = isCounted ? tool.fee * BigInt(callsOf(tool, usage)) : feeAtMost(feature, tool);
    if (isSearch(feature)) searchesAtMost += fee;
    else fees += fee;
  }
  const searches = BigInt(usage.webSearches);
  // Replaces the price's own fee for a search.
  if (search !== undefined) return fees + searchesAtMost + searches * (search - webSearch);
  // The same searches are charged once: at their bound, or by the price's own fee if that is more.
  const counted = searches * webSearch;
  return fees + (searchesAtMost > counted ? searchesAtMost - counted : 0n);
}

/**
 * The provider's own fees for the features, in addition to the search fee of its cost price; undefined if one is unknown.
 *
 * @param usage - as reported by the provider; undefined if it reported none
 */
export function costsOf(
  asked: readonly AskedFeature[],
  tools: ServerTools,
  usage: Usage | undefined,
  { webSearch }: Pick<Price, 'webSearch'>,
): NanoDollars | undefined {
  const known = new Map<string, ServerTool>();
  for (const { name } of asked) {
    const tool = tools.get(name);
    if (!tool) continue;
    const cost = tool.cost ?? (tool.countedAs === 'searches' && webSearch > 0n ? webSearch : undefined);
    if (cost === undefined) return undefined;
    known.set(name, { ...tool, fee: cost });
  }
  return feesOf(asked, known, usage, { webSearch });
}

/** The calls of the only tool that is counted among all calls; these may include the searches. */
function callsOf({ atMost }: ServerTool, { toolCalls, webSearches }: Usage): number {
  if (toolCalls === undefined) return atMost;
  const most = Math.min(toolCalls, MAX_PLAUSIBLE_CALLS);
  return Math.min(Math.max(atMost, most - webSearches), most);
}

/** More than any answer makes. */
const MAX_PLAUSIBLE_CALLS = 1000;

/** Whether the feature may be what a count of searches counts. */
function isSearch({ name, kind }: AskedFeature): boolean {
  return kind === 'tool'
    ? /search/i.test(name) && !/file|collection|attachment/i.test(name)
    : SEARCH_FIELDS.has(name);
}

const SEARCH_FIELDS: ReadonlySet<string> = new Set([
  'enable_search',
  'search_options',
  'web_search',
  'web_search_options',
]);

function feeAtMost({ times }: AskedFeature, tool: ServerTool | undefined): NanoDollars {
  return tool ? tool.fee * BigInt(tool.atMost * times) : 0n;
}
