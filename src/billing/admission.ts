import {
  AccountFrozenError,
  AuthenticationError,
  BudgetExceededError,
  CreditStoreUnavailableError,
  IdempotencyKeyReusedError,
  InsufficientCreditsError,
  InternalError,
  RateLimitError,
  RepeatedRequestError,
  type RouterError,
} from '../errors/errors.ts';
import type { ChatRequest } from '../http/chat-request.ts';
import type { OutputLimitEdit } from '../http/splice-request.ts';
import { windowEnd } from '../ledger/engine/key-limits.ts';
import type { KeyLimits } from '../ledger/contract/key-records.ts';
import type { AdmitResult } from '../ledger/contract/ledger-store.ts';
import { formatUsd, type NanoDollars } from '../ledger/contract/money.ts';
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

/** What is taken for the longest answer of a free model that says nothing of its limits. */
const FREE_OUTPUT_TOKENS = 131_072;

/** What a request can cost, by its size, its limits and the dearest target of its model. */
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
    webSearchesNeeded: asksSearches(request, model) ? model.webSearches : model.webSearchesNeeded,
    ...(features.length > 0 && {
      features,
      fees: model.targets.reduce((most, target) => larger(most, feesAt(target, features)), 0n),
    }),
    prices: model.prices,
  });
}

/** Rules may add to what is sent: it is held for as if it were prompt. */
function withAddedBytes(size: PromptSize, targets: readonly Target[]): PromptSize {
  const added = targets.reduce((most, { body }) => Math.max(most, body?.addedBytes ?? 0), 0);
  return added === 0 ? size : { ...size, stringBytes: size.stringBytes + added };
}

function limitsOf({ provider, body }: Target): OutputLimits {
  return body?.outputLimits ?? provider.outputLimits;
}

/** What a provider's tool finds comes into the prompt: it is held for as a file that is somewhere else, and not estimated. */
function sizeOf({ size, features }: ChatRequest): PromptSize {
  const finds = features.some(({ kind, name }) => kind === 'tool' || FINDS.has(name));
  return finds ? { ...size, linkedFiles: size.linkedFiles + 1 } : size;
}

/** Whether it asks for what some target prices as searches. */
function asksSearches({ features }: ChatRequest, { targets }: Model): boolean {
  return features.some(
    ({ kind, name }) =>
      (kind === 'tool' || kind === 'field') && targets.some(({ serverTools }) => !serverTools.has(name)),
  );
}

/** Fields that ask for such tools. */
const FINDS: ReadonlySet<string> = new Set([
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

function larger(a: NanoDollars, b: NanoDollars): NanoDollars {
  return a > b ? a : b;
}

/** Servers differ on which of the two counts where both are given: the larger one is held for. 0 without any. */
function givenLimit({ maxTokens, maxCompletionTokens }: ChatRequest): number {
  return Math.max(maxTokens ?? 0, maxCompletionTokens ?? 0);
}

/** Whether no answer is longer than the client's limit: the provider obeys it where it stands, or where it is moved to. */
function obeysLimit(request: ChatRequest, { obeyed, only, boundAll }: OutputLimits): boolean {
  return boundAll && (only || obeyed.some((field) => limitIn(field, request) !== undefined));
}

function limitIn(
  field: OutputLimitField,
  { maxTokens, maxCompletionTokens }: ChatRequest,
): number | undefined {
  return field === 'max_tokens' ? maxTokens : maxCompletionTokens;
}

/** A prompt that is long in characters may be short in tokens: so much is left to its answer in any case. */
const MIN_INSERTED = 1024;

/**
 * What is done to the output limit of a request that goes to a target: no answer exceeds what its model may write, nor what is held.
 *
 * @param covered - the limit that the hold covers, where it covers less than was asked for
 * @returns also what the client is told, where the limit isn't its own
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
  const inserts = covered !== undefined || output.isLimited;
  let tokens = Math.min(covered ?? Infinity, output.most ?? Infinity);
  if (given === 0 && output.isLimited && output.contextWindow !== undefined) {
    tokens = Math.min(tokens, Math.max(output.contextWindow - quote.promptTokens, MIN_INSERTED));
  }
  if (tokens === Infinity) tokens = given;
  if (tokens === 0) return { edit: undefined, announced: undefined };
  const field = obeyed.find((each) => limitIn(each, request) !== undefined) ?? obeyed[0];
  const isOurs = given > tokens || (given === 0 && inserts);
  return { edit: { field, tokens, inserts, moves: only || inserts }, announced: isOurs ? tokens : undefined };
}

/** The least that a request is admitted with. */
export function minimumHold(quote: Quote, holdMode: HoldMode): NanoDollars {
  if (holdMode === 'strict') return quote.maximum;
  return holdMode === 'adaptive' ? quote.likelyMin : quote.minimum;
}

/** The limit of output that a hold covers; undefined where the request can't exceed it anyway. */
export function outputLimit(hold: NanoDollars, quote: Quote, holdMode: HoldMode): number | undefined {
  if (hold >= quote.maximum) return undefined;
  const limit = outputTokensFor(hold, quote, holdMode);
  return limit < quote.outputCap ? limit : undefined;
}

/** The output limit that money covers beside the longest prompt of this size; with adaptive holds, beside the likely one. */
function outputTokensFor(money: NanoDollars, quote: Quote, holdMode: HoldMode): number {
  const { promptTokensNeeded, promptTokensAtMost, webSearches, webSearchesNeeded } = quote;
  if (holdMode === 'adaptive') {
    return affordableOutputTokens(money, promptTokensNeeded, withSearches(quote, 0));
  }
  const searches = holdMode === 'strict' ? webSearches : webSearchesNeeded;
  return affordableOutputTokens(money, promptTokensAtMost, withSearches(quote, searches));
}

/** What the client is told when the ledger does not admit its request. */
export function admissionError(
  result: AdmitResult,
  quote: Quote,
  holdMode: HoldMode,
  limits: KeyLimits = {},
): RouterError {
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
      return overBudget(result.left, required, limits, result.now);
    case 'no_key':
      return new AuthenticationError('invalid_api_key');
    case 'revoked':
      return new AuthenticationError('revoked_api_key');
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
      return new RateLimitError('too_many_concurrent_requests', 1000, limits.concurrentRequests ?? 0);
    case 'requests_per_minute':
      return new RateLimitError(
        'requests_per_minute_exceeded',
        result.retryAfterMs,
        result.rates?.requests?.limit ?? 0,
      );
    case 'tokens_per_minute':
      return new RateLimitError(
        'tokens_per_minute_exceeded',
        result.retryAfterMs,
        result.rates?.tokens?.limit ?? 0,
      );
    case 'stale':
    case 'old':
    case 'ahead':
      return new CreditStoreUnavailableError();
    default:
      return new InternalError(new Error(`A new request was answered ${result.code} by the store`));
  }
}

function overBudget(left: NanoDollars, required: NanoDollars, limits: KeyLimits, now: number): RouterError {
  const { amount = 0n, per = 'lifetime' } = limits.budget ?? {};
  const resetsAt = windowEnd(limits, now);
  const budget = {
    amount: formatUsd(amount),
    per,
    ...(resetsAt !== undefined && { resetsAt: new Date(resetsAt) }),
  };
  return new BudgetExceededError(budget, formatUsd(left), formatUsd(required));
}
