import type { NanoDollars } from '../ledger/contract/money.ts';
import type { Price } from './price.ts';
import type { Usage } from './usage-dialects.ts';

/** What a request asks of a provider that may be billed beside its tokens. */
export interface AskedFeature {
  /** As `serverTools` of a model names it: a tool's type, a built-in function, a field, a part of content. */
  readonly name: string;
  readonly kind: 'tool' | 'field' | 'part' | 'account file';
  /** Where it stands first, for the error. */
  readonly path: string;
  /** How often it is there: each part of content is billed, and a tool is called as often as the provider likes. */
  readonly times: number;
}

/** What a call of a tool costs that the provider runs. */
export interface ServerTool {
  readonly fee: NanoDollars;
  /** What the provider bills for a call; undefined where that isn't said. */
  readonly cost: NanoDollars | undefined;
  readonly atMost: number;
  /** The provider's usage counts its calls as searches; of any other tool `atMost` calls are charged. */
  readonly isCounted: boolean;
}

export type ServerTools = ReadonlyMap<string, ServerTool>;

/** The most that the fees of a request are meant to be. */
export function feesAtMost(asked: readonly AskedFeature[], tools: ServerTools): NanoDollars {
  return asked.reduce((sum, feature) => sum + feeAtMost(feature, tools.get(feature.name)), 0n);
}

/**
 * What is charged for them, beside what the price says of searches.
 *
 * @param usage - as the provider told it; undefined where it told none
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
    // One count for all of them: the dearest.
    else if (search === undefined || tool.fee > search) search = tool.fee;
  }
  // In place of the price's own fee for a search.
  return usage && search !== undefined ? fees + BigInt(usage.webSearches) * (search - webSearch) : fees;
}

/**
 * What the provider bills for them, beside what the price of its cost says of searches; undefined where that isn't known of one.
 *
 * @param usage - as the provider told it; undefined where it told none
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
