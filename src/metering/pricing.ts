import { formatUsd, type NanoDollars, parseUsd } from '../ledger/money.ts';
import { FREE, type Price, priceOf, type Rates } from './price.ts';

/** What tokens cost, in USD per million as decimal strings, e.g. `'0.15'`. */
export interface TokenPricing {
  readonly input: string;
  readonly output: string;
  /** Of the prompt, what came from a cache. Default: as `input`. */
  readonly cachedInput?: string;
  /** Of the prompt, what was written to a cache. Default: as `input`. */
  readonly cacheWriteInput?: string;
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
};
const TIER_KEYS: Record<keyof PricingTier, true> = { above: true, ...TOKEN_KEYS };

/** Dearer than any model by far: a price per token where one per million is wanted, or the other way round. */
const ABSURD_USD_PER_MILLION = 100_000n;
const MOST_TIERS = 16;

/**
 * @param option - where the pricing stands, for the message: `models["x"].pricing`
 * @throws {TypeError} naming the price that can't be right
 */
export function parsePricing(pricing: Pricing | 'free', option: string): Price {
  if (pricing === 'free') return FREE;
  checkKeys(pricing, PRICING_KEYS, option, "{ input, output, … } or 'free'");
  const { tiers = [], request, webSearch } = pricing;
  return priceOf({
    rates: parseRates(pricing, option),
    tiers: parseTiers(tiers, `${option}.tiers`),
    request: request === undefined ? 0n : parseFee(request, `${option}.request`),
    webSearch: webSearch === undefined ? 0n : parseFee(webSearch, `${option}.webSearch`),
  });
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
    audioInput: rate('audioInput', input),
    imageInput: rate('imageInput', input),
    output,
    reasoningOutput: rate('reasoningOutput', output),
    audioOutput: rate('audioOutput', output),
    imageOutput: rate('imageOutput', output),
  };
}

function parseTiers(tiers: unknown, option: string): (Rates & { readonly above: number })[] {
  if (!Array.isArray(tiers) || tiers.length > MOST_TIERS) {
    throw new TypeError(`${option} must be a list of at most ${MOST_TIERS} tiers, got ${show(tiers)}`);
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
  if (micro > ABSURD_USD_PER_MILLION * 1_000_000n) {
    throw new TypeError(
      `${option} must be at most ${ABSURD_USD_PER_MILLION} USD per million tokens, got ${parts[0]}`,
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
