import type { NanoDollars } from '../ledger/contract/money.ts';
import { charge, chargeAtMost, outputCovered, type Price } from './price.ts';
import type { AskedFeature } from './server-tool-fees.ts';
import { textUsage, type Usage, usageAtMost } from './usage-dialects.ts';

/**
 * The size of a prompt, measured from its bytes. Base64 is never counted as text.
 *
 * No tokenizer: the fastest takes seconds for 50,000 times the letter a.
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
  /** Total length of the `data:` URLs of files in the request itself. */
  readonly fileBytes: number;
  /** Files that the provider fetches or stores; plus one if its tools may find some. */
  readonly linkedFiles: number;
  /** Lists of tools: providers add instructions to each. */
  readonly toolLists: number;
}

/** Likely token counts of media, for estimates. */
export interface TokenBudgets {
  /** An image. */
  readonly image: number;
  /** A second of audio. */
  readonly audioPerSecond: number;
  /** A document or video. */
  readonly file: number;
}

/** Highest token counts of media, for holds. */
export interface MediaBounds {
  readonly image: number;
  readonly audioPerSecond: number;
  /** Undefined: bounded by the file's size; for a file outside the request, by the context window. */
  readonly file: number | undefined;
}

/** Highest token count of an image if the model is unknown: Qwen's bound, higher than most. */
export const UNKNOWN_IMAGE_TOKENS = 16_384;

/** Each page of a document has some tokens, whatever its content. */
const FILE_TOKENS = 20_000;

export const DEFAULT_TOKEN_BUDGETS: TokenBudgets = { image: 2000, audioPerSecond: 50, file: FILE_TOKENS };

/** A request is only admitted if this many output tokens are affordable, or its own lower limit. */
const MIN_OUTPUT_TOKENS = 16;
/** Tokens that a chat template adds to the strings: 68 with gpt-oss, 36 with Llama 3.1. */
const MAX_TEMPLATE_TOKENS = 100;
/** Tokens that a provider's tool instructions add: 530 with Claude 3 Opus, less with others that publish a number. */
const MAX_TOOL_TOKENS = 500;
const MAX_MESSAGE_TOKENS = 8;
const MESSAGE_TOKENS = 4;
/** 32 kbit/s, low for speech: a higher bit rate means fewer seconds. */
const AUDIO_BYTES_PER_SECOND = 4000;
/** 8 kbit/s, the lowest bit rate of MP3. */
const MIN_AUDIO_BYTES_PER_SECOND = 1000;

/** Delivered text, in characters. */
export interface DeliveredText {
  readonly ascii: number;
  readonly nonAscii: number;
}

/** The input of a quote. */
export interface QuoteRequest {
  readonly size: PromptSize;
  readonly budgets: TokenBudgets;
  readonly bounds: MediaBounds;
  readonly contextWindow: number | undefined;
  /** Output limit of one choice, in tokens. */
  readonly outputCap: number;
  /** Output limit of the model, in tokens, whatever was requested. */
  readonly modelOutputCap: number;
  /** Number of choices. */
  readonly n: number;
  /** Number of web searches in the hold. */
  readonly webSearches: number;
  /** Highest token count of its `prediction`: rejected prediction tokens are billed as additional output. Default: none. */
  readonly predictedTokens?: number | undefined;
  /** Number of web searches that the balance must cover for admission. */
  readonly webSearchesNeeded: number;
  /** Requested features that the provider may bill beside tokens. Default: none. */
  readonly features?: readonly AskedFeature[] | undefined;
  /** The model searches or runs other tools without being asked. Default: false. */
  readonly searches?: boolean | undefined;
  /** Highest expected fees for these features, before markup. Default: none. */
  readonly fees?: NanoDollars | undefined;
  /** The prices that may apply; the most expensive counts. */
  readonly prices: readonly Price[];
}

/** The cost bounds of a request. */
export interface Quote extends QuoteRequest {
  /** The highest cost: a token for each byte, and every choice at its output limit. */
  readonly maximum: NanoDollars;
  /** The estimated prompt, in tokens. */
  readonly promptTokens: number;
  /** Estimated text, with media at their bounds: linked content can't be estimated. */
  readonly promptTokensNeeded: number;
  /** Upper bound: no prompt of this size has more tokens. */
  readonly promptTokensAtMost: number;
  /** Estimated prompt plus full output, for limits of tokens per minute. */
  readonly tokens: number;
}

export function quoteFor(request: QuoteRequest): Quote {
  const { size, budgets, bounds, contextWindow, outputCap, modelOutputCap, n, prices } = request;
  const { webSearches, webSearchesNeeded, predictedTokens, features, searches, fees } = request;
  const promptTokens = Math.min(promptTokensEstimate(size, budgets), contextWindow ?? Infinity);
  const maxPromptTokens = promptTokensAtMost(size, bounds, contextWindow);
  const media = mediaTokensAtMost(size, bounds) - mediaTokens(size, budgets);
  const promptTokensNeeded = Math.min(promptTokens + Math.max(media, 0), maxPromptTokens);
  // Listed: made by a spread, with the others added, it takes twice the memory.
  return {
    size,
    budgets,
    bounds,
    contextWindow,
    outputCap,
    modelOutputCap,
    n,
    webSearches,
    predictedTokens,
    webSearchesNeeded,
    features,
    searches,
    fees,
    prices,
    maximum: dearest(maxPromptTokens, n * outputCap, webSearches, request),
    promptTokens,
    promptTokensNeeded,
    promptTokensAtMost: maxPromptTokens,
    tokens: promptTokens + n * outputCap,
  };
}

/**
 * What the request likely costs at one price: its estimated prompt, an output of a usual length, and no searches.
 *
 * @param isWarm - the provider has the prompt in its cache
 */
export function likelyCharge(
  { promptTokens, n, outputCap, fees }: Quote,
  price: Price,
  isWarm: boolean,
): NanoDollars {
  const usage = textUsage(promptTokens, n * Math.min(outputCap, FIRST_OUTPUT_TOKENS));
  return charge({ ...usage, cachedTokens: isWarm ? promptTokens : 0 }, price, fees);
}

/** The largest output limit per choice that the money covers beside the prompt; 0 if none. */
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

/** A bound that holds for every tokenizer: no token is shorter than a byte. Templates and media have bounds of their own. */
export function promptTokensAtMost(size: PromptSize, bounds: MediaBounds, contextWindow?: number): number {
  const added = MAX_TEMPLATE_TOKENS + size.messages * MAX_MESSAGE_TOKENS + size.toolLists * MAX_TOOL_TOKENS;
  return Math.min(size.stringBytes + added + mediaTokensAtMost(size, bounds), contextWindow ?? Infinity);
}

/** The highest cost with a few tokens of output. */
export function minimumCost(quote: Quote): NanoDollars {
  return dearest(quote.promptTokensAtMost, leastOutput(quote), quote.webSearchesNeeded, quote);
}

/** The likely cost with a few tokens of output: estimated text, media at their bounds, and no searches, which few requests make. */
export function likelyMinimum(quote: Quote): NanoDollars {
  return dearest(quote.promptTokensNeeded, leastOutput(quote), 0, quote);
}

/** A few tokens, of each choice. */
function leastOutput({ n, outputCap }: Quote): number {
  return n * Math.min(MIN_OUTPUT_TOKENS, outputCap);
}

/** Output tokens per choice in the first hold of an adaptive request. */
const FIRST_OUTPUT_TOKENS = 1024;

/** The first amount of an adaptive hold; never more than `maximum`. */
export function firstHold(quote: Quote): NanoDollars {
  return holdFor(quote, quote.n * FIRST_OUTPUT_TOKENS);
}

/** The hold for the whole prompt and this many output tokens; never more than `maximum`. */
export function holdFor(quote: Quote, outputTokens: number): NanoDollars {
  const most = quote.n * quote.outputCap;
  return dearest(quote.promptTokensAtMost, Math.min(outputTokens, most), quote.webSearches, quote);
}

/** The number of output tokens, of all choices together, that the money covers beside the prompt. */
export function outputTokensCovered(money: NanoDollars, promptTokens: number, quote: Quote): number {
  return affordableOutputTokens(money, promptTokens, {
    ...quote,
    n: 1,
    outputCap: quote.n * quote.outputCap,
  });
}

/** The highest plausible completion count of a provider. */
export function plausibleOutputTokens(request: QuoteRequest): number {
  const { n, outputCap, modelOutputCap, predictedTokens = 0 } = request;
  return 4 * n * Math.max(outputCap, modelOutputCap) + predictedTokens + TEMPLATE_TOKENS;
}

/** The estimate: four ASCII characters or 1.3 others to a token. */
export function promptTokensEstimate(size: PromptSize, budgets: TokenBudgets): number {
  const text = textTokens(size.asciiChars, size.nonAsciiChars);
  return text + size.messages * MESSAGE_TOKENS + mediaTokens(size, budgets);
}

export function outputTokensEstimate({ ascii, nonAscii }: DeliveredText): number {
  return textTokens(ascii, nonAscii);
}

/** Whether a provider's usage is plausible for an answer without steps of tools that the provider runs. */
export function isPlausible(usage: Usage, request: QuoteRequest): boolean {
  return plausiblePart(usage, request, 1) === usage;
}

/**
 * A provider's usage, with every implausible count reduced to its bound.
 *
 * The bounds are the model's, not the request's: a client that requests one token from a provider that ignores the limit
 * still pays for the whole output. A prompt may fill the context window, because providers add search results,
 * instructions and pictures that no request shows. Where the provider runs tools, usage may sum the prompts of all steps.
 *
 * @param steps - calls of the model
 */
export function plausiblePart(
  usage: Usage,
  request: QuoteRequest,
  steps: number = stepsAtMost(request),
): Usage {
  const { size, budgets, bounds, contextWindow = MAX_CONTEXT_WINDOW } = request;
  const windows = request.contextWindow === undefined ? 1 : steps;
  const media = Math.max(
    4 * mediaTokens(size, budgets),
    Math.min(mediaTokensAtMost(size, bounds), contextWindow),
  );
  const shown = size.stringBytes + size.messages * MAX_MESSAGE_TOKENS + media;
  return usageAtMost(usage, {
    promptTokens: Math.max(shown + TEMPLATE_TOKENS, windows * contextWindow),
    completionTokens: plausibleOutputTokens(request),
    webSearches: MAX_PLAUSIBLE_SEARCHES,
  });
}

/** Calls of the model in a request. The `atMost` of its tools is no bound: providers don't know it. */
function stepsAtMost({ features, searches = false }: QuoteRequest): number {
  const asksForTools = features?.some(({ kind }) => kind === 'tool' || kind === 'field');
  return searches || asksForTools ? MAX_STEPS : 1;
}

/** The most that OpenRouter runs in a request. */
const MAX_STEPS = 30;

/** Larger than any model's context window. */
const MAX_CONTEXT_WINDOW = 4_000_000;

/** More than any answer makes, even where sources are counted instead of searches. */
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

/** A token for each byte, as for text, plus the tokens of pages; for a linked file, any context window. */
function filesAtMost({ files, fileBytes, linkedFiles }: PromptSize): number {
  return linkedFiles > 0 ? MAX_CONTEXT_WINDOW : files * FILE_TOKENS + fileBytes;
}

/** The same request with another number of searches. */
export function withSearches<T extends QuoteRequest>(request: T, webSearches: number): T {
  return request.webSearches === webSearches ? request : { ...request, webSearches };
}

/** The cost at the most expensive price, with every token at its highest rate. */
function dearest(
  promptTokens: number,
  outputTokens: number,
  webSearches: number,
  { prices, predictedTokens = 0, fees }: QuoteRequest,
): NanoDollars {
  let most = 0n;
  for (const price of prices) {
    const nano = chargeAtMost(promptTokens, outputTokens + predictedTokens, webSearches, price, fees);
    if (nano > most) most = nano;
  }
  return most;
}
