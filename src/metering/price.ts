import { hash } from 'node:crypto';

import type { NanoDollars } from '../ledger/contract/money.ts';
import { withoutLastZeros } from './decimal.ts';
import { combineMarkups, type MarkupTerms, NO_MARKUP } from './markup.ts';
import type { Usage } from './usage-dialects.ts';

/** What tokens cost, in integers: pico-dollars (1e-12 USD) each, which is micro-dollars per million. */
export interface Rates {
  readonly input: bigint;
  readonly cachedInput: bigint;
  readonly cacheWriteInput: bigint;
  /** Of what is written for an hour; undefined where that isn't sold: then it is as any write. */
  readonly cacheWriteHourInput: bigint | undefined;
  readonly audioInput: bigint;
  readonly imageInput: bigint;
  readonly output: bigint;
  readonly reasoningOutput: bigint;
  readonly audioOutput: bigint;
  readonly imageOutput: bigint;
}

/** Rates with the dearest that a token of a prompt, and of an output, can be: what holds are made of. */
export interface BoundedRates extends Rates {
  readonly inputAtMost: bigint;
  readonly outputAtMost: bigint;
}

/** The rates of a request whose prompt is longer than so many tokens, for all of it. */
export interface Tier extends BoundedRates {
  readonly above: number;
}

/** What a request costs: rates, by the size of its prompt, fees, and what is added to all of it. */
export interface Price extends BoundedRates {
  /** Ascending. */
  readonly tiers: readonly Tier[];
  /** For each request. */
  readonly request: NanoDollars;
  /** For each search of the Web. */
  readonly webSearch: NanoDollars;
  /** Where the provider reports a cost, that is charged, with the markup; these prices bound it. */
  readonly reported: boolean;
  /** What a request costs that is served in another tier of the provider's, by the tier's name; none of them has any itself. */
  readonly serviceTiers: ReadonlyMap<string, Price>;
  readonly markup: MarkupTerms;
  /** Names this price, markup included, in the journal: the same prices have the same name. */
  readonly version: string;
}

/** What a price is made of, without what follows from it. */
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
    version: hash('sha256', parts.join('; '), 'hex').slice(0, 12),
  };
}

/** The same with something added to it; what is free stays free. */
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

/** What costs nothing. */
export const FREE: Price = {
  ...priceOf({ rates: ZERO_RATES, tiers: [], request: 0n, webSearch: 0n }),
  version: 'free',
};

/**
 * What a usage costs: every token in one bucket at that bucket's rate, fees and markup added, rounded up once.
 *
 * Reasoning is priced after what is audio or an image: no token of the output is charged twice.
 *
 * @param fees - beside those of the price, before markup
 */
export function charge(usage: Usage, price: Price, fees: NanoDollars = 0n): NanoDollars {
  const { promptTokens, cachedTokens, cacheWriteTokens, audioPromptTokens, imagePromptTokens } = usage;
  const { completionTokens, audioCompletionTokens, imageCompletionTokens } = usage;
  const rates = ratesFor(promptTokens, price);
  const words = completionTokens - audioCompletionTokens - imageCompletionTokens;
  const reasoning = Math.min(usage.reasoningTokens, words);
  const hour = usage.cacheWriteHourTokens ?? 0;
  const pico =
    BigInt(promptTokens - cachedTokens - cacheWriteTokens - audioPromptTokens - imagePromptTokens) *
      rates.input +
    BigInt(cachedTokens) * rates.cachedInput +
    BigInt(cacheWriteTokens - hour) * rates.cacheWriteInput +
    BigInt(hour) * (rates.cacheWriteHourInput ?? rates.cacheWriteInput) +
    BigInt(audioPromptTokens) * rates.audioInput +
    BigInt(imagePromptTokens) * rates.imageInput +
    BigInt(words - reasoning) * rates.output +
    BigInt(reasoning) * rates.reasoningOutput +
    BigInt(audioCompletionTokens) * rates.audioOutput +
    BigInt(imageCompletionTokens) * rates.imageOutput;
  return total(pico, usage.webSearches, price, fees);
}

/**
 * What is charged for a cost that the provider reported: with the markup, and without the price's own fees, which it has in it.
 *
 * @param cost - in pico-dollars
 */
export function chargeReported(cost: bigint, { markup }: Price): NanoDollars {
  return withMarkupApplied(cost, markup);
}

/** The same price for holds of what may be written to a cache for an hour. */
export function withHourWrites(price: Price): Price {
  const raised = <T extends BoundedRates>(rates: T): T => ({
    ...rates,
    inputAtMost: largest(rates.inputAtMost, rates.cacheWriteHourInput ?? 0n),
  });
  return { ...raised(price), tiers: price.tiers.map(raised) };
}

/** The most that a request can cost: a prompt of up to so many tokens, in the dearest tier that it can reach. */
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

/** How much output, in tokens, so much money is sure to cover; undefined if not even the prompt, Infinity if any. */
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

/** A price per token as model lists show it, in USD, with its markup and without a fee: `0.00000015`. */
export function usdPerToken(pico: bigint, markup: MarkupTerms = NO_MARKUP): string {
  return toDecimal(pico * markup.numerator, 1_000_000_000_000n * markup.denominator);
}

/** A fee as model lists show it, in USD, with the factor of a markup. */
export function usdPerCall(nano: NanoDollars, markup: MarkupTerms = NO_MARKUP): string {
  return toDecimal(nano * markup.numerator, 1_000_000_000n * markup.denominator);
}

/** @param denominator - a power of ten */
function toDecimal(numerator: bigint, denominator: bigint): string {
  const places = denominator.toString().length - 1;
  const digits = numerator.toString().padStart(places + 1, '0');
  return withoutLastZeros(`${digits.slice(0, -places)}.${digits.slice(-places)}`);
}

/** Those of a prompt of so many tokens. */
export function ratesFor(promptTokens: number, price: Price): Rates {
  let rates: Rates = price;
  for (const tier of price.tiers) {
    if (promptTokens <= tier.above) break;
    rates = tier;
  }
  return rates;
}

/** Pico-dollars of tokens with fees and markup, in nano-dollars, rounded up. */
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
