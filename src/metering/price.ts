import * as crypto from 'node:crypto';

import type { NanoDollars } from '../ledger/contract/money.ts';
import { withoutLastZeros } from './decimal.ts';
import { combineMarkups, type MarkupTerms, NO_MARKUP } from './markup.ts';
import type { Usage } from './usage-dialects.ts';

/** Prices of tokens, in integers: pico-dollars (1e-12 USD) per token, which equals micro-dollars per million. */
export interface Rates {
  readonly input: bigint;
  readonly cachedInput: bigint;
  readonly cacheWriteInput: bigint;
  /** For cache writes kept for an hour; undefined if they have no price of their own: then `cacheWriteInput` applies. */
  readonly cacheWriteHourInput: bigint | undefined;
  readonly audioInput: bigint;
  readonly imageInput: bigint;
  readonly output: bigint;
  readonly reasoningOutput: bigint;
  readonly audioOutput: bigint;
  readonly imageOutput: bigint;
}

/** Rates with the highest rate of a prompt token and of an output token, for holds. */
export interface BoundedRates extends Rates {
  readonly inputAtMost: bigint;
  readonly outputAtMost: bigint;
}

/** The rates for all tokens of a request whose prompt is longer than `above` tokens. */
export interface Tier extends BoundedRates {
  readonly above: number;
}

/** The price of a request: rates by prompt size, fees and a markup. */
export interface Price extends BoundedRates {
  /** Ascending. */
  readonly tiers: readonly Tier[];
  /** Fee for each request. */
  readonly request: NanoDollars;
  /** Fee for each web search. */
  readonly webSearch: NanoDollars;
  /** A cost that the provider reports is charged, with the markup; the other prices are its upper bound. */
  readonly reported: boolean;
  /** Prices of the provider's service tiers, by name; they have no service tiers themselves. */
  readonly serviceTiers: ReadonlyMap<string, Price>;
  readonly markup: MarkupTerms;
  /** Identifies this price, including its markup, in the journal: equal prices have equal versions. */
  readonly version: string;
}

/** The parts of a price, without derived values. */
export interface PriceParts {
  readonly rates: Rates;
  /** Ascending. */
  readonly tiers: readonly (Rates & { readonly above: number })[];
  readonly request: NanoDollars;
  readonly webSearch: NanoDollars;
  readonly reported?: boolean;
  readonly serviceTiers?: ReadonlyMap<string, Price>;
}

const NO_SERVICE_TIERS: ReadonlyMap<string, Price> = new Map();

/** @param markup - default: none */
export function priceOf(
  { rates, tiers, request, webSearch, reported = false, serviceTiers = NO_SERVICE_TIERS }: PriceParts,
  markup: MarkupTerms = NO_MARKUP,
): Price {
  const parts = [
    namesOf(rates),
    ...tiers.map((tier) => `>${tier.above} ${namesOf(tier)}`),
    `${request} ${webSearch}`,
  ];
  if (reported) parts.push('reported');
  if (markup !== NO_MARKUP) parts.push(markup.name);
  return {
    ...bounded(rates),
    tiers: tiers.map((tier) => ({ ...bounded(tier), above: tier.above })),
    request,
    webSearch,
    reported,
    serviceTiers,
    markup,
    version: crypto.hash('sha256', parts.join('; '), 'hex').slice(0, 12),
  };
}

/** The price with a further markup; a free price stays free. */
export function withMarkup(price: Price, markup: MarkupTerms): Price {
  if (price === FREE || markup.name === NO_MARKUP.name) return price;
  const { tiers, request, webSearch, reported } = price;
  const serviceTiers = new Map(
    [...price.serviceTiers].map(([name, tier]) => [name, withMarkup(tier, markup)]),
  );
  const parts = { rates: price, tiers, request, webSearch, reported, serviceTiers };
  return priceOf(parts, combineMarkups(price.markup, markup));
}

const ZERO_RATES: Rates = {
  input: 0n,
  cachedInput: 0n,
  cacheWriteInput: 0n,
  cacheWriteHourInput: undefined,
  audioInput: 0n,
  imageInput: 0n,
  output: 0n,
  reasoningOutput: 0n,
  audioOutput: 0n,
  imageOutput: 0n,
};

/** The price of a free model. */
export const FREE: Price = {
  ...priceOf({ rates: ZERO_RATES, tiers: [], request: 0n, webSearch: 0n }),
  version: 'free',
};

/**
 * The charge for a usage: every token at the rate of its one bucket, plus fees and markup, rounded up once.
 *
 * Audio and image tokens take precedence over reasoning: no output token is charged twice.
 *
 * @param fees - in addition to those of the price, before markup
 */
export function charge(usage: Usage, price: Price, fees: NanoDollars = 0n): NanoDollars {
  const { promptTokens, cachedTokens, cacheWriteTokens, audioPromptTokens, imagePromptTokens } = usage;
  const { completionTokens, audioCompletionTokens, imageCompletionTokens } = usage;
  const rates = ratesFor(promptTokens, price);
  const words = completionTokens - audioCompletionTokens - imageCompletionTokens;
  const reasoning = Math.min(usage.reasoningTokens, words);
  const hour = usage.cacheWriteHourTokens ?? 0;
  const text = promptTokens - cachedTokens - cacheWriteTokens - audioPromptTokens - imagePromptTokens;
  const pico =
    costOf(text, rates.input) +
    costOf(cachedTokens, rates.cachedInput) +
    costOf(cacheWriteTokens - hour, rates.cacheWriteInput) +
    costOf(hour, rates.cacheWriteHourInput ?? rates.cacheWriteInput) +
    costOf(audioPromptTokens, rates.audioInput) +
    costOf(imagePromptTokens, rates.imageInput) +
    costOf(words - reasoning, rates.output) +
    costOf(reasoning, rates.reasoningOutput) +
    costOf(audioCompletionTokens, rates.audioOutput) +
    costOf(imageCompletionTokens, rates.imageOutput);
  return total(pico, usage.webSearches, price, fees);
}

/** Most buckets of a usage are empty. */
function costOf(tokens: number, rate: bigint): bigint {
  return tokens === 0 ? 0n : BigInt(tokens) * rate;
}

/**
 * The charge for a cost that the provider reported: with the markup, without the price's fees, which the cost includes.
 *
 * @param cost - in pico-dollars
 */
export function chargeReported(cost: bigint, { markup }: Price): NanoDollars {
  return withMarkupApplied(cost, markup);
}

/** The price for the hold of a request that may write to a cache for an hour. */
export function withHourWrites(price: Price): Price {
  const raised = <T extends BoundedRates>(rates: T): T => ({
    ...rates,
    inputAtMost: largest(rates.inputAtMost, rates.cacheWriteHourInput ?? 0n),
  });
  return { ...raised(price), tiers: price.tiers.map(raised) };
}

/** The highest charge for a prompt of up to `promptTokens`, in the most expensive tier that it can reach. */
export function chargeAtMost(
  promptTokens: number,
  outputTokens: number,
  webSearches: number,
  price: Price,
  fees: NanoDollars = 0n,
): NanoDollars {
  const prompt = BigInt(promptTokens);
  const output = BigInt(outputTokens);
  let most = prompt * price.inputAtMost + output * price.outputAtMost;
  for (const tier of price.tiers) {
    if (tier.above >= promptTokens) break;
    const pico = prompt * tier.inputAtMost + output * tier.outputAtMost;
    if (pico > most) most = pico;
  }
  return total(most, webSearches, price, fees);
}

/** How many output tokens the money covers in any case; undefined if it doesn't cover the prompt, Infinity if output is free. */
export function outputCovered(
  money: NanoDollars,
  promptTokens: number,
  webSearches: number,
  price: Price,
  fees: NanoDollars = 0n,
): number | undefined {
  const { markup, request, webSearch } = price;
  const pico = ((money - markup.fee) * 1000n * markup.denominator) / markup.numerator;
  const left = pico - (request + BigInt(webSearches) * webSearch + fees) * 1000n;
  let fewest = coveredBy(left, promptTokens, price);
  for (const tier of price.tiers) {
    if (tier.above >= promptTokens || fewest === undefined) break;
    const covered = coveredBy(left, promptTokens, tier);
    fewest = covered === undefined ? undefined : Math.min(fewest, covered);
  }
  return fewest;
}

function coveredBy(
  pico: bigint,
  promptTokens: number,
  { inputAtMost, outputAtMost }: BoundedRates,
): number | undefined {
  const left = pico - BigInt(promptTokens) * inputAtMost;
  if (left < 0n) return undefined;
  return outputAtMost === 0n ? Infinity : Number(left / outputAtMost);
}

/** A price per token for model lists, in USD, with the markup's factor but not its fee: `0.00000015`. */
export function usdPerToken(pico: bigint, markup: MarkupTerms = NO_MARKUP): string {
  return toDecimal(pico * markup.numerator, 1_000_000_000_000n * markup.denominator);
}

/** A fee for model lists, in USD, with the markup's factor. */
export function usdPerCall(nano: NanoDollars, markup: MarkupTerms = NO_MARKUP): string {
  return toDecimal(nano * markup.numerator, 1_000_000_000n * markup.denominator);
}

/** @param denominator - a power of ten */
function toDecimal(numerator: bigint, denominator: bigint): string {
  const places = denominator.toString().length - 1;
  const digits = numerator.toString().padStart(places + 1, '0');
  return withoutLastZeros(`${digits.slice(0, -places)}.${digits.slice(-places)}`);
}

/** The rates for a prompt of this size. */
export function ratesFor(promptTokens: number, price: Price): Rates {
  let rates: Rates = price;
  for (const tier of price.tiers) {
    if (promptTokens <= tier.above) break;
    rates = tier;
  }
  return rates;
}

/** Pico-dollars of tokens plus fees and markup, in nano-dollars, rounded up. */
function total(
  pico: bigint,
  webSearches: number,
  { request, webSearch, markup }: Price,
  fees: NanoDollars,
): NanoDollars {
  return withMarkupApplied(pico + (request + BigInt(webSearches) * webSearch + fees) * 1000n, markup);
}

/** Pico-dollars with a markup, in nano-dollars, rounded up. */
function withMarkupApplied(pico: bigint, markup: MarkupTerms): NanoDollars {
  if (markup === NO_MARKUP) return (pico + 999n) / 1000n;
  const divisor = 1000n * markup.denominator;
  return (pico * markup.numerator + divisor - 1n) / divisor + markup.fee;
}

function bounded(rates: Rates): BoundedRates {
  const { input, cachedInput, cacheWriteInput, cacheWriteHourInput, audioInput, imageInput } = rates;
  const { output, reasoningOutput, audioOutput, imageOutput } = rates;
  return {
    input,
    cachedInput,
    cacheWriteInput,
    cacheWriteHourInput,
    audioInput,
    imageInput,
    output,
    reasoningOutput,
    audioOutput,
    imageOutput,
    inputAtMost: largest(input, cachedInput, cacheWriteInput, audioInput, imageInput),
    outputAtMost: largest(output, reasoningOutput, audioOutput, imageOutput),
  };
}

function namesOf(rates: Rates): string {
  const { input, cachedInput, cacheWriteInput, audioInput, imageInput } = rates;
  const { output, reasoningOutput, audioOutput, imageOutput } = rates;
  const all = [input, cachedInput, cacheWriteInput, audioInput, imageInput, output];
  const { cacheWriteHourInput } = rates;
  const hour = cacheWriteHourInput === undefined ? [] : [`hour ${cacheWriteHourInput}`];
  return [...all, reasoningOutput, audioOutput, imageOutput, ...hour].join(' ');
}

function largest(...amounts: readonly bigint[]): bigint {
  return amounts.reduce((most, amount) => (amount > most ? amount : most));
}

/** Names, at every provider, of the service tier with the standard price. */
export const PLAIN_TIERS: ReadonlySet<string> = new Set(['default', 'standard']);

/** The tier's name in prices; undefined for the tier with the standard price. */
export function tierNamed(name: string, plainNames: readonly string[]): string | undefined {
  if (PLAIN_TIERS.has(name) || plainNames.includes(name)) return undefined;
  // OpenAI's newer name; its answers use the older one.
  return name === 'fast' ? 'priority' : name;
}

/** The prices that may apply to a request for a tier, all covered by its hold; empty if the tier has no price. */
export function pricesOfTier(price: Price, requested: string | undefined): readonly Price[] {
  if (requested === undefined) return [price];
  // The provider chooses the tier.
  if (requested === 'auto') return [price, ...price.serviceTiers.values()];
  const tier = price.serviceTiers.get(requested);
  return tier ? [tier] : [];
}

/** The price of the tier that served, as reported, or else as requested; undefined if that tier has no price. */
export function priceOfServed(
  price: Price,
  requested: string | undefined,
  reported: string | undefined,
  plainNames: readonly string[],
): Price | undefined {
  // `auto` isn't a tier: it repeats the request.
  const served = reported === undefined || reported === 'auto' ? requested : tierNamed(reported, plainNames);
  return served === undefined || served === 'auto' ? price : price.serviceTiers.get(served);
}

/** The price covered by the hold at which this usage costs most. */
export function dearestHeld(price: Price, requested: string | undefined, usage: Usage): Price {
  if (requested === undefined) return price;
  const [first = price, ...others] = pricesOfTier(price, requested);
  return others.reduce(
    (dearest, each) => (charge(usage, each) > charge(usage, dearest) ? each : dearest),
    first,
  );
}
