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

/** The price of a tool that the provider runs. */
export interface ServerTool {
  readonly fee: NanoDollars;
  /** What the provider bills per call; undefined if not configured. */
  readonly cost: NanoDollars | undefined;
  readonly atMost: number;
  /** The provider's usage counts its calls as searches; for any other tool `atMost` calls are charged. */
  readonly isCounted: boolean;
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
  let fees = 0n;
  let search: NanoDollars | undefined;
  for (const feature of asked) {
    const tool = tools.get(feature.name);
    if (!tool?.isCounted || !usage) fees += feeAtMost(feature, tool);
    // One count for all search tools: the highest fee applies.
    else if (search === undefined || tool.fee > search) search = tool.fee;
  }
  // Replaces the price's own fee for a search.
  return usage && search !== undefined ? fees + BigInt(usage.webSearches) * (search - webSearch) : fees;
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
    const cost = tool.cost ?? (tool.isCounted && webSearch > 0n ? webSearch : undefined);
    if (cost === undefined) return undefined;
    known.set(name, { ...tool, fee: cost });
  }
  return feesOf(asked, known, usage, { webSearch });
}

function feeAtMost({ times }: AskedFeature, tool: ServerTool | undefined): NanoDollars {
  return tool ? tool.fee * BigInt(tool.atMost * times) : 0n;
}
