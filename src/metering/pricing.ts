import { formatUsd, type NanoDollars, parseUsd } from '../ledger/contract/money.ts';
import { parseFactor } from './markup.ts';
import { FREE, type Price, priceOf, type PriceParts, type Rates } from './price.ts';
import { PLAIN_TIERS } from './service-tiers.ts';

/** What tokens cost, in USD per million as decimal strings, e.g. `'0.15'`. */
export interface TokenPricing {
  readonly input: string;
  readonly output: string;
  /** Of the prompt, what came from a cache. Default: as `input`. */
  readonly cachedInput?: string;
  /** Of the prompt, what was written to a cache. Default: as `input`. */
  readonly cacheWriteInput?: string;
  /** Of the prompt, what was written to a cache for an hour. Default: none, and requests for it (`ttl: '1h'`) are refused. */
  readonly cacheWriteHourInput?: string;
  /** Of the prompt, what was audio. Default: as `input`. */
  readonly audioInput?: string;
  /** Of the prompt, what was images. Default: as `input`. */
  readonly imageInput?: string;
  /** Of the output, what was reasoning. Default: as `output`. */
  readonly reasoningOutput?: string;
  /** Of the output, what was audio. Default: as `output`. */
  readonly audioOutput?: string;
  /** Of the output, what was images. Default: as `output`. */
  readonly imageOutput?: string;
}

/** What a model costs: tokens, in USD per million, and fees in USD; all as decimal strings. */
export interface Pricing extends TokenPricing {
  /** Other prices for all tokens of a request whose prompt is longer than so many tokens. */
  readonly tiers?: readonly PricingTier[];
  /** A fee for each request that is charged, in USD. Default: none. */
  readonly request?: string;
  /** A fee for each search of the Web that the provider's usage tells of, in USD. Default: none. */
  readonly webSearch?: string;
  /**
   * Prices of the provider's service tiers, by their names: `{ priority: { factor: '2' }, flex: { input: '0.5', output: '1' } }`.
   * A tier without a price isn't sold. Default: none.
   */
  readonly serviceTiers?: ServiceTiersPricing;
}

export type ServiceTiersPricing = Readonly<Record<string, ServiceTierPricing>>;

/** Prices of its own, as a tier's, or the plain ones for tokens times a factor, a decimal string. Fees are as the plain ones. */
export type ServiceTierPricing =
  | { readonly factor: string }
  | (TokenPricing & { readonly tiers?: readonly PricingTier[] });

/** What the provider reports as its cost is the price. */
export interface ReportedPricing {
  readonly reported: true;
  /** What holds and estimates are made of, and what is charged where no cost is reported. */
  readonly ceiling: Pricing;
}

/** A tier has prices of its own: what it leaves out is as its own `input` or `output`. */
export interface PricingTier extends TokenPricing {
  /** A prompt of one token more is in this tier. */
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

/** Dearer than any model by far: a price per token where one per million is wanted, or the other way round. */
const MAX_USD_PER_MILLION = 100_000n;
const MAX_TIERS = 16;

/** Service tiers that don't stand in the pricing itself, and where they do. */
export interface SeparateTiers {
  readonly serviceTiers: ServiceTiersPricing;
  readonly option: string;
}

/**
 * @param option - where the pricing stands, for the message: `models["x"].pricing`
 * @param beside - tiers of this pricing, where they stand elsewhere
 * @throws {TypeError} naming the price that can't be right
 */
export function parsePricing(
  pricing: Pricing | ReportedPricing | 'free',
  option: string,
  beside?: SeparateTiers,
): Price {
  if (pricing === 'free') {
    if (beside) throw new TypeError(`${beside.option}: what is 'free' has no tiers to sell`);
    return FREE;
  }
  const word: unknown = pricing;
  if (word === 'reported') {
    throw new TypeError(
      `${option} is 'reported': give { reported: true, ceiling: { input, output, … } }, because holds are made of a ceiling`,
    );
  }
  const reported = typeof pricing === 'object' && pricing !== null && 'reported' in pricing;
  if (!reported) return parsePrices(pricing, option, false, beside);
  checkKeys(pricing, REPORTED_KEYS, option, '{ reported: true, ceiling: { input, output, … } }');
  const says: unknown = pricing.reported;
  if (says !== true) {
    throw new TypeError(`${option}.reported must be true, or not there, got ${show(says)}`);
  }
  if (pricing.ceiling === undefined) {
    throw new TypeError(`${option}.ceiling is missing: holds are made of it, as { input, output, … }`);
  }
  return parsePrices(pricing.ceiling, `${option}.ceiling`, true, beside);
}

function parsePrices(pricing: Pricing, option: string, reported: boolean, beside?: SeparateTiers): Price {
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
  if (serviceTiers !== undefined && beside) {
    throw new TypeError(`${option}.serviceTiers and ${beside.option} are both there: give one of them`);
  }
  const sold = serviceTiers === undefined ? beside : { serviceTiers, option: `${option}.serviceTiers` };
  return priceOf(sold ? { ...plain, serviceTiers: parseServiceTiers(sold, plain) } : plain);
}

/**
 * @param plain - the price that they are tiers of
 * @throws {TypeError} naming the tier that can't be right
 */
function parseServiceTiers(
  { serviceTiers: given, option }: SeparateTiers,
  plain: PriceParts,
): ReadonlyMap<string, Price> {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new TypeError(
      `${option} must be { priority: { factor } | { input, output, … }, … }, got ${show(given)}`,
    );
  }
  const tiers = new Map<string, Price>();
  for (const [name, tier] of Object.entries(given)) {
    const place = `${option}[${JSON.stringify(name)}]`;
    if (PLAIN_TIERS.has(name) || name === 'auto') {
      throw new TypeError(`${place}: this tier has the plain price, which stands beside serviceTiers`);
    }
    if (name === 'fast') throw new TypeError(`${place}: "fast" is another name of "priority", give that`);
    if (!/^[\w.-]{1,64}$/.test(name)) throw new TypeError(`${place} isn't the name of a service tier`);
    const isFactor = typeof tier === 'object' && tier !== null && 'factor' in tier;
    checkKeys(tier, isFactor ? FACTOR_KEYS : SERVICE_TIER_KEYS, place, '{ factor } or { input, output, … }');
    tiers.set(
      name,
      priceOf(isFactor ? timesFactor(plain, tier.factor, place) : ownPrices(tier, plain, place)),
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

/** All rates times a factor, each rounded up to a pico-dollar. */
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
    throw new TypeError(`${option} must be a list of at most ${MAX_TIERS} tiers, got ${show(tiers)}`);
  }
  let before = 0;
  return tiers.map((tier: PricingTier, i) => {
    const name = `${option}[${i}]`;
    checkKeys(tier, TIER_KEYS, name, '{ above, input, output, … }');
    const { above } = tier;
    if (!Number.isSafeInteger(above) || above <= before) {
      throw new TypeError(
        `${name}.above must be an integer above ${before}, in ascending order, got ${show(above)}`,
      );
    }
    before = above;
    if (plain.cacheWriteHourInput !== undefined && tier.cacheWriteHourInput === undefined) {
      throw new TypeError(`${name}.cacheWriteHourInput is missing: prompts that are shorter have one`);
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
    throw new TypeError(`${option} must be ${wanted}, got ${show(given)}`);
  }
  for (const key of Object.keys(given)) {
    if (!Object.hasOwn(known, key)) {
      throw new TypeError(`${option} has an unknown key "${key}"; it takes ${Object.keys(known).join(', ')}`);
    }
  }
}

function parsePerMillion(given: unknown, option: string): bigint {
  const parts = typeof given === 'string' ? /^(\d{1,6})(?:\.(\d{1,6}))?$/.exec(given) : null;
  if (!parts) {
    throw new TypeError(
      `${option} must be a decimal string of USD per million tokens with at most 6 decimals, as "0.15", got ${show(given)}`,
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

/** A BigInt has no JSON. */
function show(value: unknown): string {
  return typeof value === 'bigint' ? `${value}n` : (JSON.stringify(value) ?? String(value));
}

/** @throws {TypeError} naming the option, unless it is USD from 0 to 1000 */
export function parseFee(given: string, option: string): NanoDollars {
  const fee = parseUsd(given, option);
  if (fee < 0n || fee > 1_000_000_000_000n) {
    throw new TypeError(`${option} must be from 0 to 1000 USD, got ${formatUsd(fee)}`);
  }
  return fee;
}
