import type { NanoDollars } from '../ledger/contract/money.ts';
import { chargeAtMost, outputCovered, type Price } from './price.ts';
import type { AskedFeature } from './server-tool-fees.ts';
import { type Usage, usageAtMost } from './usage-dialects.ts';

/**
 * How large a prompt is, as its bytes show. Base64 is never counted as text.
 *
 * No tokenizer: the fastest of them takes seconds for 50,000 times the letter a.
 */
export interface PromptSize {
  readonly messages: number;
  /** Bytes of all strings that can reach the model. */
  readonly stringBytes: number;
  /** The same strings, in characters. */
  readonly asciiChars: number;
  readonly nonAsciiChars: number;
  readonly images: number;
  readonly audioBytes: number;
  readonly files: number;
  /** Of the files, what stands in the request itself: the length of their `data:` URLs. */
  readonly fileBytes: number;
  /** Of the files, those that the provider is to fetch, or has; with one more for what its tools find. */
  readonly linkedFiles: number;
  /** Lists of tools: providers add instructions to each. */
  readonly toolLists: number;
}

/** Tokens that media are likely to cost: what estimates take for them. */
export interface TokenBudgets {
  /** An image. */
  readonly image: number;
  /** A second of audio. */
  readonly audioPerSecond: number;
  /** A document or video. */
  readonly file: number;
}

/** Tokens that media can cost at most: what holds take for them. */
export interface MediaBounds {
  readonly image: number;
  readonly audioPerSecond: number;
  /** Undefined: what its size allows, or of a file that isn't in the request the whole context window. */
  readonly file: number | undefined;
}

/** The most that an image is where nothing is known of the model: as with Qwen's, more than with most. */
export const UNKNOWN_IMAGE_TOKENS = 16_384;

/** A document has some tokens for each of its pages, whatever stands on them. */
const FILE_TOKENS = 20_000;

export const DEFAULT_TOKEN_BUDGETS: TokenBudgets = { image: 2000, audioPerSecond: 50, file: FILE_TOKENS };

/** The least that a request can be admitted with writes so many tokens, or its own limit. */
const MIN_OUTPUT_TOKENS = 16;
/** What a chat template adds, beside the strings: 68 tokens in all with gpt-oss, 36 with Llama 3.1. */
const MAX_TEMPLATE_TOKENS = 100;
/** What a provider's instructions on tools add: 530 with Claude 3 Opus, less with the others that say. */
const MAX_TOOL_TOKENS = 500;
const MAX_MESSAGE_TOKENS = 8;
const MESSAGE_TOKENS = 4;
/** 32 kbit/s, which is little for speech: more bytes a second would be fewer seconds. */
const AUDIO_BYTES_PER_SECOND = 4000;
/** 8 kbit/s, the least that MP3 has. */
const MIN_AUDIO_BYTES_PER_SECOND = 1000;

/** Text that was delivered, in characters. */
export interface DeliveredText {
  readonly ascii: number;
  readonly nonAscii: number;
}

/** What has to be known to say what a request can cost. */
export interface QuoteRequest {
  readonly size: PromptSize;
  readonly budgets: TokenBudgets;
  readonly bounds: MediaBounds;
  readonly contextWindow: number | undefined;
  /** The most that one answer can have, in tokens. */
  readonly outputCap: number;
  /** The most that the model writes, whatever was asked for, in tokens. */
  readonly modelOutputCap: number;
  /** How many answers. */
  readonly n: number;
  /** The most searches of the Web that are held for. */
  readonly webSearches: number;
  /** The most tokens of its `prediction`: those that the answer hasn't are billed as output, beside it. Default: none. */
  readonly predictedTokens?: number;
  /** Searches that must be covered for it to be admitted. */
  readonly webSearchesNeeded: number;
  /** What it asks of its provider that may be billed beside tokens. Default: nothing. */
  readonly features?: readonly AskedFeature[];
  /** The most that the fees of those are meant to be, before markup. Default: none. */
  readonly fees?: NanoDollars;
  /** The prices it may be charged by; the dearest counts. */
  readonly prices: readonly Price[];
}

/** What a request can cost. */
export interface Quote extends QuoteRequest {
  /** All that it can cost: a token a byte, and every answer as long as it may be. */
  readonly maximum: NanoDollars;
  /** All that it can cost with a few tokens of output. */
  readonly minimum: NanoDollars;
  /** What it is likely to cost with a few tokens of output: the estimated text, all that media can be, and no searches. */
  readonly likelyMin: NanoDollars;
  /** The prompt's estimate, in tokens. */
  readonly promptTokens: number;
  /** Its text by estimate, its media at most: nobody estimates what a link leads to. */
  readonly promptTokensNeeded: number;
  /** No prompt of this size has more tokens. */
  readonly promptTokensAtMost: number;
  /** Estimated prompt and whole output, for limits of tokens per minute. */
  readonly tokens: number;
}

export function quoteFor(request: QuoteRequest): Quote {
  const { size, budgets, bounds, contextWindow = Infinity, outputCap, n } = request;
  const promptTokens = Math.min(promptTokensEstimate(size, budgets), contextWindow);
  const maxPromptTokens = promptTokensAtMost(size, bounds, contextWindow);
  const media = mediaTokensAtMost(size, bounds) - mediaTokens(size, budgets);
  const promptTokensNeeded = Math.min(promptTokens + Math.max(media, 0), maxPromptTokens);
  const minOutput = Math.min(MIN_OUTPUT_TOKENS, outputCap);
  return {
    ...request,
    maximum: dearest(maxPromptTokens, n * outputCap, request),
    minimum: dearest(maxPromptTokens, n * minOutput, withSearches(request, request.webSearchesNeeded)),
    // Few make any.
    likelyMin: dearest(promptTokensNeeded, n * minOutput, withSearches(request, 0)),
    promptTokens,
    promptTokensNeeded,
    promptTokensAtMost: maxPromptTokens,
    tokens: promptTokens + n * outputCap,
  };
}

/** The most that the request can cost at one price. */
export function worstCase(
  { promptTokensAtMost: promptTokens, n, outputCap, predictedTokens = 0, webSearches, fees }: Quote,
  price: Price,
): NanoDollars {
  return chargeAtMost(promptTokens, n * outputCap + predictedTokens, webSearches, price, fees);
}

/** The largest output limit, an answer, that so much money covers beside a prompt of so many tokens; 0 if none does. */
export function affordableOutputTokens(
  money: NanoDollars,
  promptTokens: number,
  request: QuoteRequest,
): number {
  const { outputCap, n, predictedTokens = 0, webSearches, fees } = request;
  let fewest = outputCap;
  for (const price of request.prices) {
    const covered = outputCovered(money, promptTokens, webSearches, price, fees);
    if (covered === undefined || covered < predictedTokens) return 0;
    fewest = Math.min(fewest, Math.floor((covered - predictedTokens) / n));
  }
  return fewest;
}

/** No token of text is shorter than a byte, and what is written around it is bounded too, as media are. */
export function promptTokensAtMost(size: PromptSize, bounds: MediaBounds, contextWindow?: number): number {
  const added = MAX_TEMPLATE_TOKENS + size.messages * MAX_MESSAGE_TOKENS + size.toolLists * MAX_TOOL_TOKENS;
  return Math.min(size.stringBytes + added + mediaTokensAtMost(size, bounds), contextWindow ?? Infinity);
}

/** What an adaptive hold begins with: the prompt, and so many tokens of each answer. */
const FIRST_OUTPUT_TOKENS = 1024;

/** What an adaptive hold is at first; never more than `want`. */
export function firstHold(quote: Quote): NanoDollars {
  return holdFor(quote, quote.n * FIRST_OUTPUT_TOKENS);
}

/** What covers the whole prompt and so many tokens of output; never more than `want`. */
export function holdFor(quote: Quote, outputTokens: number): NanoDollars {
  const most = quote.n * quote.outputCap;
  return dearest(quote.promptTokensAtMost, Math.min(outputTokens, most), quote);
}

/** How many tokens of output, of all answers together, so much money covers beside a prompt of so many tokens. */
export function outputTokensCovered(money: NanoDollars, promptTokens: number, quote: Quote): number {
  return affordableOutputTokens(money, promptTokens, {
    ...quote,
    n: 1,
    outputCap: quote.n * quote.outputCap,
  });
}

/** The most output that a provider can be believed to have counted. */
export function plausibleOutputTokens(request: QuoteRequest): number {
  const { n, outputCap, modelOutputCap, predictedTokens = 0 } = request;
  return 4 * n * Math.max(outputCap, modelOutputCap) + predictedTokens + TEMPLATE_TOKENS;
}

/** What is likely: four ASCII characters a token, 1.3 of the others. */
export function promptTokensEstimate(size: PromptSize, budgets: TokenBudgets): number {
  const text = textTokens(size.asciiChars, size.nonAsciiChars);
  return text + size.messages * MESSAGE_TOKENS + mediaTokens(size, budgets);
}

export function outputTokensEstimate({ ascii, nonAscii }: DeliveredText): number {
  return textTokens(ascii, nonAscii);
}

/** Whether a provider's usage can be true. */
export function isPlausible(usage: Usage, request: QuoteRequest): boolean {
  return plausiblePart(usage, request) === usage;
}

/**
 * A provider's usage as far as it can be true: of a count that nothing can explain, the most that something can.
 *
 * The bounds are the model's, never the request's own: whoever asks for one token of a provider
 * that ignores the limit still pays for all that was written. A prompt may fill the context
 * window, because providers add search results, instructions and pictures that no request shows.
 */
export function plausiblePart(usage: Usage, request: QuoteRequest): Usage {
  const { size, budgets, bounds, contextWindow = MAX_CONTEXT_WINDOW } = request;
  const media = Math.max(
    4 * mediaTokens(size, budgets),
    Math.min(mediaTokensAtMost(size, bounds), contextWindow),
  );
  const shown = size.stringBytes + size.messages * MAX_MESSAGE_TOKENS + media;
  return usageAtMost(usage, {
    promptTokens: Math.max(shown + TEMPLATE_TOKENS, contextWindow),
    completionTokens: plausibleOutputTokens(request),
    webSearches: MAX_PLAUSIBLE_SEARCHES,
  });
}

/** More than any model has. */
const MAX_CONTEXT_WINDOW = 4_000_000;

/** More than any answer makes, also where sources are counted rather than searches. */
const MAX_PLAUSIBLE_SEARCHES = 1000;

/** More than chat templates and most hidden instructions add to a prompt. */
const TEMPLATE_TOKENS = 2000;

function textTokens(ascii: number, nonAscii: number): number {
  return Math.ceil((13 * ascii + 40 * nonAscii) / 52); // ascii / 4 + nonAscii / 1.3, exactly
}

function mediaTokens(size: PromptSize, budgets: TokenBudgets): number {
  const seconds = Math.ceil(size.audioBytes / AUDIO_BYTES_PER_SECOND);
  return size.images * budgets.image + seconds * budgets.audioPerSecond + size.files * budgets.file;
}

function mediaTokensAtMost(size: PromptSize, { image, audioPerSecond, file }: MediaBounds): number {
  const seconds = Math.ceil(size.audioBytes / MIN_AUDIO_BYTES_PER_SECOND);
  const files = file === undefined ? filesAtMost(size) : Math.max(size.files, size.linkedFiles) * file;
  return size.images * image + seconds * audioPerSecond + files;
}

/** A token a byte, as of text, and what pages cost; of what is only linked, all that fits into any window. */
function filesAtMost({ files, fileBytes, linkedFiles }: PromptSize): number {
  return linkedFiles > 0 ? MAX_CONTEXT_WINDOW : files * FILE_TOKENS + fileBytes;
}

/** The same request with this many searches. */
export function withSearches<T extends QuoteRequest>(request: T, webSearches: number): T {
  return request.webSearches === webSearches ? request : { ...request, webSearches };
}

/** Of the dearest price, every token in its dearest bucket. */
function dearest(
  promptTokens: number,
  outputTokens: number,
  { prices, predictedTokens = 0, webSearches, fees }: QuoteRequest,
): NanoDollars {
  let most = 0n;
  for (const price of prices) {
    const nano = chargeAtMost(promptTokens, outputTokens + predictedTokens, webSearches, price, fees);
    if (nano > most) most = nano;
  }
  return most;
}
