import {
  AccountFrozenError,
  CreditStoreUnavailableError,
  InsufficientCreditsError,
} from '../errors/credit-errors.ts';
import { AuthenticationError, BudgetExceededError, RateLimitError } from '../errors/key-errors.ts';
import { IdempotencyKeyReusedError, RepeatedRequestError } from '../errors/request-errors.ts';
import { InternalError, type RouterError } from '../errors/router-error.ts';
import type { ChatRequest } from '../http/chat-request.ts';
import type { OutputLimitEdit } from '../http/splice-request.ts';
import { windowEnd } from '../ledger/engine/key-limits.ts';
import type { ExceededLimit } from '../ledger/contract/key-records.ts';
import type { AdmitResult } from '../ledger/contract/ledger-store.ts';
import { formatUsd, larger, type NanoDollars } from '../ledger/contract/money.ts';
import {
  affordableOutputTokens,
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

/** Longest answer assumed of a free model without limits. */
const FREE_OUTPUT_TOKENS = 131_072;

/** Quotes what a request can cost, from its size, its limits and the most expensive target of its model. */
export function quoteRequest(request: ChatRequest, model: Model): Quote {
  const most = model.maxOutputTokens ?? model.contextWindow ?? FREE_OUTPUT_TOKENS;
  const given = givenLimit(request);
  const { features } = request;
  const isObeyed = model.targets.every((target) => obeysLimit(request, limitsOf(target)));
  const asked = isObeyed ? given || most : most;
  return quoteFor({
    size: withAddedBytes(sizeOf(request), model.targets),
    budgets: model.tokenBudgets,
    bounds: model.mediaBounds,
    contextWindow: model.contextWindow,
    outputCap: Math.min(asked, most),
    modelOutputCap: Math.max(given, most),
    n: request.n,
    ...(request.predictedBytes > 0 && { predictedTokens: request.predictedBytes }),
    webSearches: model.webSearches,
    webSearchesNeeded: usesSearches(request, model) ? model.webSearches : model.webSearchesNeeded,
    ...(features.length > 0 && {
      features,
      fees: model.targets.reduce((most, target) => larger(most, feesAt(target, features)), 0n),
    }),
    prices: model.prices,
  });
}

/** Counts what body rules may add as prompt. */
function withAddedBytes(size: PromptSize, targets: readonly Target[]): PromptSize {
  const added = targets.reduce((most, { body }) => Math.max(most, body?.addedBytes ?? 0), 0);
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

function feesAt(target: Target, features: readonly AskedFeature[]): NanoDollars {
  return target.usesByok ? 0n : feesAtMost(features, target.serverTools);
}

/** The larger of the two limits, as servers differ on which one counts; 0 without any. */
function givenLimit({ maxTokens, maxCompletionTokens }: ChatRequest): number {
  return Math.max(maxTokens ?? 0, maxCompletionTokens ?? 0);
}

/** Whether the provider obeys the client's limit, in its field or in the one that it is moved to. */
function obeysLimit(request: ChatRequest, { obeyed, only, boundAll }: OutputLimits): boolean {
  return boundAll && (only || obeyed.some((field) => limitIn(field, request) !== undefined));
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
 * @returns also the limit to announce to the client, if it isn't the client's own
 */
export function limitFor(
  target: Target,
  request: ChatRequest,
  quote: Quote,
  covered: number | undefined,
): { readonly edit: OutputLimitEdit | undefined; readonly announced: number | undefined } {
  const { output } = target;
  const { obeyed, only } = limitsOf(target);
  const given = givenLimit(request);
  const inserts = covered !== undefined || output.insertsLimit;
  let tokens = Math.min(covered ?? Infinity, output.maxTokens ?? Infinity);
  if (given === 0 && output.insertsLimit && output.contextWindow !== undefined) {
    tokens = Math.min(tokens, Math.max(output.contextWindow - quote.promptTokens, MIN_INSERTED));
  }
  if (tokens === Infinity) tokens = given;
  if (tokens === 0) return { edit: undefined, announced: undefined };
  const field = obeyed.find((each) => limitIn(each, request) !== undefined) ?? obeyed[0];
  const isRouterLimit = given > tokens || (given === 0 && inserts);
  return {
    edit: { field, tokens, inserts, moves: only || inserts },
    announced: isRouterLimit ? tokens : undefined,
  };
}

/** The smallest hold that admits a request. */
export function minimumHold(quote: Quote, holdMode: HoldMode): NanoDollars {
  if (holdMode === 'strict') return quote.maximum;
  return holdMode === 'adaptive' ? quote.likelyMin : quote.minimum;
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

/** The client's error when the ledger does not admit its request. */
export function admissionError(result: AdmitResult, quote: Quote, holdMode: HoldMode): RouterError {
  const required = minimumHold(quote, holdMode);
  const insufficient = (available: NanoDollars): RouterError =>
    new InsufficientCreditsError(
      formatUsd(required),
      formatUsd(available),
      outputTokensFor(available, quote, holdMode),
    );
  switch (result.code) {
    case 'no_funds':
      return insufficient(result.available);
    case 'no_account':
      return insufficient(0n);
    case 'budget':
      return overBudget(result, required, result.now);
    case 'no_key':
      return new AuthenticationError('invalid_api_key');
    case 'revoked':
      return new AuthenticationError('revoked_api_key');
    case 'paused':
      return new AuthenticationError('paused_api_key');
    case 'expired':
      return new AuthenticationError('expired_api_key');
    case 'frozen':
      return new AccountFrozenError();
    case 'repeated': {
      const code = result.state === 'held' ? 'request_in_progress' : 'request_already_processed';
      return new RepeatedRequestError(code, result.requestId);
    }
    case 'key_reused':
      return new IdempotencyKeyReusedError(result.requestId);
    case 'concurrency':
      return new RateLimitError('too_many_concurrent_requests', { ...result, retryAfterMs: 1000 });
    case 'requests_per_minute':
      return new RateLimitError('requests_per_minute_exceeded', result);
    case 'tokens_per_minute':
      return new RateLimitError('tokens_per_minute_exceeded', result);
    case 'stale':
    case 'old':
    case 'ahead':
      return new CreditStoreUnavailableError();
    default:
      return new InternalError(new Error(`The store answered a new request with ${result.code}`));
  }
}

function overBudget(
  { limitedBy, left, budget: { amount, per } }: Extract<ExceededLimit, { code: 'budget' }>,
  required: NanoDollars,
  now: number,
): RouterError {
  const budget = {
    amount: formatUsd(amount),
    per,
    ...(per !== 'lifetime' && { resetsAt: new Date(windowEnd(per, now)) }),
  };
  return new BudgetExceededError(limitedBy, budget, formatUsd(left), formatUsd(required));
}
