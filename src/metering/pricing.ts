import { formatUsd, type NanoDollars, parseUsd } from '../ledger/contract/money.ts';
import { parseFactor } from './markup.ts';
import { FREE, type Price, priceOf, type PriceParts, type Rates, PLAIN_TIERS } from './price.ts';
import { keyTypoError } from '../platform/did-you-mean.ts';
import { showValue } from '../platform/show-value.ts';

/** Prices of tokens, in USD per million, as decimal strings, e.g. `'0.15'`. */
export interface TokenPricing {
  readonly input: string;
  readonly output: string;
  /** Prompt tokens read from a cache. Default: as `input`. */
  readonly cachedInput?: string;
  /** Prompt tokens written to a cache. Default: as `input`. */
  readonly cacheWriteInput?: string;
  /** Prompt tokens written to a cache for an hour. Default: none, and requests for it (`ttl: '1h'`) are rejected. */
  readonly cacheWriteHourInput?: string;
  /** Audio tokens of the prompt. Default: as `input`. */
  readonly audioInput?: string;
  /** Image tokens of the prompt. Default: as `input`. */
  readonly imageInput?: string;
  /** Reasoning tokens of the output. Default: as `output`. */
  readonly reasoningOutput?: string;
  /** Audio tokens of the output. Default: as `output`. */
  readonly audioOutput?: string;
  /** Image tokens of the output. Default: as `output`. */
  readonly imageOutput?: string;
}

/** The price of a model: tokens in USD per million, and fees in USD, all as decimal strings. */
export interface Pricing extends TokenPricing {
  /** Other prices for all tokens of a request with a longer prompt. */
  readonly tiers?: readonly PricingTier[];
  /** Fee for each charged request, in USD. Default: none. */
  readonly request?: string;
  /** Fee for each web search in the provider's usage, in USD. Default: none. */
  readonly webSearch?: string;
  /**
   * Prices of the provider's service tiers, by name: `{ priority: { factor: '2' }, flex: { input: '0.5', output: '1' } }`.
   * A request for a tier without a price is rejected. Default: none.
   */
  readonly serviceTiers?: ServiceTiersPricing;
}

export type ServiceTiersPricing = Readonly<Record<string, ServiceTierPricing>>;

/** Separate token prices, or the standard ones times a factor (a decimal string). Fees are the standard ones. */
export type ServiceTierPricing =
  | { readonly factor: string }
  | (TokenPricing & { readonly tiers?: readonly PricingTier[] });

/** The price is the cost that the provider reports. */
export interface ReportedPricing {
  readonly reported: true;
  /** The price for holds and estimates, and for answers without a reported cost. */
  readonly ceiling: Pricing;
}

/** Prices for longer prompts. Omitted prices default to the tier's own `input` or `output`. */
export interface PricingTier extends TokenPricing {
  /** Prompts with more tokens than this are in the tier. */
  readonly above: number;
}

const TOKEN_KEYS: Record<keyof TokenPricing, true> = {
  input: true,
  output: true,
  cachedInput: true,
  cacheWriteInput: true,
  cacheWriteHourInput: true,
  audioInput: true,
  imageInput: true,
  reasoningOutput: true,
  audioOutput: true,
  imageOutput: true,
};
const PRICING_KEYS: Record<keyof Pricing, true> = {
  ...TOKEN_KEYS,
  tiers: true,
  request: true,
  webSearch: true,
  serviceTiers: true,
};
const FACTOR_KEYS = { factor: true } as const;
const SERVICE_TIER_KEYS = { ...TOKEN_KEYS, tiers: true } as const;
const REPORTED_KEYS: Record<keyof ReportedPricing, true> = { reported: true, ceiling: true };
const TIER_KEYS: Record<keyof PricingTier, true> = { above: true, ...TOKEN_KEYS };

/** Far more expensive than any model: catches a price in the wrong unit. */
const MAX_USD_PER_MILLION = 100_000n;
const MAX_TIERS = 16;

/** Service tiers that are configured outside the pricing, with the path of that option. */
export interface SeparateTiers {
  readonly serviceTiers: ServiceTiersPricing;
  readonly option: string;
}

/**
 * @param option - path of the option, for the message: `models["x"].pricing`
 * @param separate - service tiers for this pricing that are configured elsewhere
 * @throws {TypeError} naming the invalid price
 */
export function parsePricing(
  pricing: Pricing | ReportedPricing | 'free',
  option: string,
  separate?: SeparateTiers,
): Price {
  if (pricing === 'free') {
    if (separate) throw new TypeError(`${separate.option}: a 'free' model can't have priced service tiers`);
    return FREE;
  }
  const word: unknown = pricing;
  if (word === 'reported') {
    throw new TypeError(
      `${option} is 'reported': give { reported: true, ceiling: { input, output, … } }, because holds need a ceiling`,
    );
  }
  const reported = typeof pricing === 'object' && pricing !== null && 'reported' in pricing;
  if (!reported) return parsePrices(pricing, option, false, separate);
  checkKeys(pricing, REPORTED_KEYS, option, '{ reported: true, ceiling: { input, output, … } }');
  const says: unknown = pricing.reported;
  if (says !== true) {
    throw new TypeError(`${option}.reported must be true or omitted, got ${showValue(says)}`);
  }
  if (pricing.ceiling === undefined) {
    throw new TypeError(`${option}.ceiling is missing: holds need it, as { input, output, … }`);
  }
  return parsePrices(pricing.ceiling, `${option}.ceiling`, true, separate);
}

function parsePrices(pricing: Pricing, option: string, reported: boolean, separate?: SeparateTiers): Price {
  checkKeys(
    pricing,
    PRICING_KEYS,
    option,
    reported ? '{ input, output, … }' : "{ input, output, … } or 'free'",
  );
  const { tiers = [], request, webSearch, serviceTiers } = pricing;
  const plain = {
    rates: parseRates(pricing, option),
    tiers: parseTiers(tiers, `${option}.tiers`, pricing),
    request: request === undefined ? 0n : parseFee(request, `${option}.request`),
    webSearch: webSearch === undefined ? 0n : parseFee(webSearch, `${option}.webSearch`),
    reported,
  };
  if (serviceTiers !== undefined && separate) {
    throw new TypeError(`${option}.serviceTiers and ${separate.option} are both given: keep one of them`);
  }
  const sold = serviceTiers === undefined ? separate : { serviceTiers, option: `${option}.serviceTiers` };
  return priceOf(sold ? { ...plain, serviceTiers: parseServiceTiers(sold, plain) } : plain);
}

/**
 * @param plain - the standard price
 * @throws {TypeError} naming the invalid tier
 */
function parseServiceTiers(
  { serviceTiers: given, option }: SeparateTiers,
  plain: PriceParts,
): ReadonlyMap<string, Price> {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new TypeError(
      `${option} must be { priority: { factor } | { input, output, … }, … }, got ${showValue(given)}`,
    );
  }
  const tiers = new Map<string, Price>();
  for (const [name, tier] of Object.entries(given)) {
    const tierOption = `${option}[${JSON.stringify(name)}]`;
    if (PLAIN_TIERS.has(name) || name === 'auto') {
      throw new TypeError(
        `${tierOption}: this tier has the standard price, which isn't part of serviceTiers`,
      );
    }
    if (name === 'fast') throw new TypeError(`${tierOption}: "fast" is an alias of "priority"; use that`);
    if (!/^[\w.-]{1,64}$/.test(name))
      throw new TypeError(`${tierOption} isn't a valid name of a service tier`);
    const isFactor = typeof tier === 'object' && tier !== null && 'factor' in tier;
    checkKeys(
      tier,
      isFactor ? FACTOR_KEYS : SERVICE_TIER_KEYS,
      tierOption,
      '{ factor } or { input, output, … }',
    );
    tiers.set(
      name,
      priceOf(isFactor ? timesFactor(plain, tier.factor, tierOption) : ownPrices(tier, plain, tierOption)),
    );
  }
  return tiers;
}

function ownPrices(
  tier: Exclude<ServiceTierPricing, { readonly factor: string }>,
  plain: PriceParts,
  option: string,
): PriceParts {
  const tiers = parseTiers(tier.tiers ?? [], `${option}.tiers`, tier);
  return { ...plain, rates: parseRates(tier, option), tiers };
}

/** Multiplies all rates by a factor, each rounded up to a pico-dollar. */
function timesFactor(plain: PriceParts, given: string, option: string): PriceParts {
  const [numerator, denominator] = parseFactor(given, `${option}.factor`);
  const times = (rate: bigint): bigint => (rate * numerator + denominator - 1n) / denominator;
  const all = (rates: Rates): Rates => ({
    input: times(rates.input),
    cachedInput: times(rates.cachedInput),
    cacheWriteInput: times(rates.cacheWriteInput),
    cacheWriteHourInput:
      rates.cacheWriteHourInput === undefined ? undefined : times(rates.cacheWriteHourInput),
    audioInput: times(rates.audioInput),
    imageInput: times(rates.imageInput),
    output: times(rates.output),
    reasoningOutput: times(rates.reasoningOutput),
    audioOutput: times(rates.audioOutput),
    imageOutput: times(rates.imageOutput),
  });
  const tiers = plain.tiers.map((tier) => ({ ...all(tier), above: tier.above }));
  return { ...plain, rates: all(plain.rates), tiers };
}

function parseRates(pricing: TokenPricing, option: string): Rates {
  const rate = (name: keyof TokenPricing, fallback?: bigint): bigint => {
    const given = pricing[name];
    return given === undefined && fallback !== undefined
      ? fallback
      : parsePerMillion(given, `${option}.${name}`);
  };
  const input = rate('input');
  const output = rate('output');
  return {
    input,
    cachedInput: rate('cachedInput', input),
    cacheWriteInput: rate('cacheWriteInput', input),
    cacheWriteHourInput: pricing.cacheWriteHourInput === undefined ? undefined : rate('cacheWriteHourInput'),
    audioInput: rate('audioInput', input),
    imageInput: rate('imageInput', input),
    output,
    reasoningOutput: rate('reasoningOutput', output),
    audioOutput: rate('audioOutput', output),
    imageOutput: rate('imageOutput', output),
  };
}

function parseTiers(
  tiers: unknown,
  option: string,
  plain: TokenPricing,
): (Rates & { readonly above: number })[] {
  if (!Array.isArray(tiers) || tiers.length > MAX_TIERS) {
    throw new TypeError(`${option} must be a list of at most ${MAX_TIERS} tiers, got ${showValue(tiers)}`);
  }
  let before = 0;
  return tiers.map((tier: PricingTier, i) => {
    const name = `${option}[${i}]`;
    checkKeys(tier, TIER_KEYS, name, '{ above, input, output, … }');
    const { above } = tier;
    if (!Number.isSafeInteger(above) || above <= before) {
      throw new TypeError(
        `${name}.above must be an integer above ${before}, in ascending order, got ${showValue(above)}`,
      );
    }
    before = above;
    if (plain.cacheWriteHourInput !== undefined && tier.cacheWriteHourInput === undefined) {
      throw new TypeError(`${name}.cacheWriteHourInput is missing: the price for shorter prompts has one`);
    }
    return { ...parseRates(tier, name), above };
  });
}

function checkKeys(
  given: unknown,
  known: Readonly<Record<string, true>>,
  option: string,
  wanted: string,
): void {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new TypeError(`${option} must be ${wanted}, got ${showValue(given)}`);
  }
  for (const key of Object.keys(given)) {
    if (!Object.hasOwn(known, key)) {
      throw keyTypoError(option, key, Object.keys(known));
    }
  }
}

function parsePerMillion(given: unknown, option: string): bigint {
  const parts = typeof given === 'string' ? /^(\d{1,6})(?:\.(\d{1,6}))?$/.exec(given) : null;
  if (!parts) {
    throw new TypeError(
      `${option} must be a decimal string of USD per million tokens with at most 6 decimals, such as "0.15", got ${showValue(given)}`,
    );
  }
  const [, whole = '0', decimals = ''] = parts;
  const micro = BigInt(whole) * 1_000_000n + BigInt(decimals.padEnd(6, '0'));
  if (micro > MAX_USD_PER_MILLION * 1_000_000n) {
    throw new TypeError(
      `${option} must be at most ${MAX_USD_PER_MILLION} USD per million tokens, got ${parts[0]}`,
    );
  }
  return micro;
}

/** @throws {TypeError} naming the option, unless it is USD from 0 to 1000 */
export function parseFee(given: string, option: string): NanoDollars {
  const fee = parseUsd(given, option);
  if (fee < 0n || fee > 1_000_000_000_000n) {
    throw new TypeError(`${option} must be from 0 to 1000 USD, got ${formatUsd(fee)}`);
  }
  return fee;
}
