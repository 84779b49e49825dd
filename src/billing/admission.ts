import type { ChatRequest } from '../http/chat-request.ts';
import type { OutputLimitEdit } from '../http/splice-request.ts';
import { larger, type NanoDollars } from '../ledger/contract/money.ts';
import {
  affordableOutputTokens,
  likelyMinimum,
  minimumCost,
  type PromptSize,
  quoteFor,
  type Quote,
  withSearches,
} from '../metering/estimate.ts';
import { type AskedFeature, feesAtMost } from '../metering/server-tool-fees.ts';
import type { Model, Target } from '../catalog/model.ts';
import type { OutputLimits } from '../catalog/provider.ts';
import type { OutputLimitField } from '../options/provider-options.ts';
import type { HoldMode } from '../options/router-options.ts';
import type { Need } from './refusal.ts';

/** Longest answer assumed of a free model without limits. */
const FREE_OUTPUT_TOKENS = 131_072;

/** Quotes what a request can cost, from its size, its limits and the most expensive target of its model. */
export function quoteRequest(request: ChatRequest, model: Model): Quote {
  const most = model.maxOutputTokens ?? model.contextWindow ?? FREE_OUTPUT_TOKENS;
  const given = givenLimit(request);
  const { features } = request;
  const isBilled = features.length > 0;
  let isObeyed = true;
  let searches = false;
  for (const target of model.targets) {
    isObeyed &&= obeysLimit(request, limitsOf(target));
    searches ||= target.searches;
  }
  const asked = isObeyed ? given || most : most;
  return quoteFor({
    size: withAddedBytes(sizeOf(request), model.targets),
    budgets: model.tokenBudgets,
    bounds: model.mediaBounds,
    contextWindow: model.contextWindow,
    outputCap: Math.min(asked, most),
    modelOutputCap: Math.max(given, most),
    n: request.n,
    predictedTokens: request.predictedBytes || undefined,
    webSearches: model.webSearches,
    webSearchesNeeded: usesSearches(request, model) ? model.webSearches : model.webSearchesNeeded,
    features: isBilled ? features : undefined,
    searches: searches || undefined,
    fees: isBilled ? feesAtMostOf(model.targets, features) : undefined,
    prices: model.prices,
  });
}

/** Counts what body rules may add as prompt. */
function withAddedBytes(size: PromptSize, targets: readonly Target[]): PromptSize {
  let added = 0;
  for (const { body } of targets) added = Math.max(added, body?.addedBytes ?? 0);
  return added === 0 ? size : { ...size, stringBytes: size.stringBytes + added };
}

function limitsOf({ provider, body }: Target): OutputLimits {
  return body?.outputLimits ?? provider.outputLimits;
}

/** What a provider's tool finds is added to the prompt: it is held for like a linked file, and not estimated. */
function sizeOf({ size, features }: ChatRequest): PromptSize {
  const addsToPrompt = features.some(({ kind, name }) => kind === 'tool' || TOOL_FIELDS.has(name));
  return addsToPrompt ? { ...size, linkedFiles: size.linkedFiles + 1 } : size;
}

/** Whether the request uses a feature that some target prices as searches. */
function usesSearches({ features }: ChatRequest, { targets }: Model): boolean {
  return features.some(
    ({ kind, name }) =>
      (kind === 'tool' || kind === 'field') && targets.some(({ serverTools }) => !serverTools.has(name)),
  );
}

/** Fields that request such tools. */
const TOOL_FIELDS: ReadonlySet<string> = new Set([
  'enable_search',
  'enable_code_interpreter',
  'web_search',
  'data_sources',
  'connectors',
  'mcp_servers',
  'google.tools',
]);

function feesAtMostOf(targets: readonly Target[], features: readonly AskedFeature[]): NanoDollars {
  return targets.reduce((most, target) => larger(most, feesAt(target, features)), 0n);
}

function feesAt(target: Target, features: readonly AskedFeature[]): NanoDollars {
  return target.usesByok ? 0n : feesAtMost(features, target.serverTools);
}

/** The larger of the two limits, as servers differ on which one counts; 0 without any. */
function givenLimit({ maxTokens, maxCompletionTokens }: ChatRequest): number {
  return Math.max(maxTokens ?? 0, maxCompletionTokens ?? 0);
}

/** Whether the provider obeys the client's limit, in its field or in the one that it is moved to. */
function obeysLimit(request: ChatRequest, { obeyed, only, boundAll }: OutputLimits): boolean {
  return boundAll && (only || givenField(obeyed, request) !== undefined);
}

/** The field in which the client gave a limit that the provider obeys. */
function givenField(obeyed: OutputLimits['obeyed'], request: ChatRequest): OutputLimitField | undefined {
  for (const field of obeyed) if (limitIn(field, request) !== undefined) return field;
  return undefined;
}

function limitIn(
  field: OutputLimitField,
  { maxTokens, maxCompletionTokens }: ChatRequest,
): number | undefined {
  return field === 'max_tokens' ? maxTokens : maxCompletionTokens;
}

/** Least limit that is inserted: a prompt that is long in characters may be short in tokens. */
const MIN_INSERTED = 1024;

/** The edit of a request's output limit for a target: no answer exceeds its model's limit or its hold.
 * @param covered - the limit that the hold covers, if that is less than requested
 */
export function limitEdit(
  target: Target,
  request: ChatRequest,
  quote: Quote,
  covered: number | undefined,
): OutputLimitEdit | undefined {
  const tokens = outputTokens(target, request, quote, covered);
  if (tokens === 0) return undefined;
  const { obeyed, only } = limitsOf(target);
  const field = givenField(obeyed, request) ?? obeyed[0];
  const inserts = mayInsert(target, covered);
  return { field, tokens, inserts, moves: only || inserts };
}

/** The output limit to announce to the client; undefined if it is the client's own, or there is none.
 * @param covered - as for `limitEdit`
 */
export function announcedLimit(
  target: Target,
  request: ChatRequest,
  quote: Quote,
  covered: number | undefined,
): number | undefined {
  const tokens = outputTokens(target, request, quote, covered);
  const given = givenLimit(request);
  const isRouters = given > tokens || (given === 0 && mayInsert(target, covered));
  return tokens > 0 && isRouters ? tokens : undefined;
}

function mayInsert({ output }: Target, covered: number | undefined): boolean {
  return covered !== undefined || output.insertsLimit;
}

/** Most tokens that a target's answer may have; 0 without a limit. */
function outputTokens(
  { output }: Target,
  request: ChatRequest,
  quote: Quote,
  covered: number | undefined,
): number {
  const given = givenLimit(request);
  let tokens = Math.min(covered ?? Infinity, output.maxTokens ?? Infinity);
  if (given === 0 && output.insertsLimit && output.contextWindow !== undefined) {
    tokens = Math.min(tokens, Math.max(output.contextWindow - quote.promptTokens, MIN_INSERTED));
  }
  return tokens === Infinity ? given : tokens;
}

/** The smallest hold that admits a request. */
export function minimumHold(quote: Quote, holdMode: HoldMode): NanoDollars {
  if (holdMode === 'strict') return quote.maximum;
  return holdMode === 'adaptive' ? likelyMinimum(quote) : minimumCost(quote);
}

/** The output limit that a hold covers; undefined if the request can't exceed it anyway. */
export function outputLimit(hold: NanoDollars, quote: Quote, holdMode: HoldMode): number | undefined {
  if (hold >= quote.maximum) return undefined;
  const limit = outputTokensFor(hold, quote, holdMode);
  return limit < quote.outputCap ? limit : undefined;
}

/** The output limit that an amount covers besides the longest prompt of this size; with adaptive holds, the likely prompt. */
function outputTokensFor(money: NanoDollars, quote: Quote, holdMode: HoldMode): number {
  const { promptTokensNeeded, promptTokensAtMost, webSearches, webSearchesNeeded } = quote;
  if (holdMode === 'adaptive') {
    return affordableOutputTokens(money, promptTokensNeeded, withSearches(quote, 0));
  }
  const searches = holdMode === 'strict' ? webSearches : webSearchesNeeded;
  return affordableOutputTokens(money, promptTokensAtMost, withSearches(quote, searches));
}

/** What a refused request asked for, for its client's error. */
export function needOf(quote: Quote, holdMode: HoldMode): Need {
  return {
    required: minimumHold(quote, holdMode),
    affordableTokens: (available) => outputTokensFor(available, quote, holdMode),
  };
}
