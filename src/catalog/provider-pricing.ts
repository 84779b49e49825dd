import { shiftDecimal } from '../metering/decimal.ts';
import type { Pricing, PricingTier, TokenPricing } from '../metering/pricing.ts';
import { isRecord, type Json } from './json-value.ts';

/** Members of `pricing` in a provider's list, in USD per token: Vercel's, and OpenRouter's. */
const RATES: readonly (readonly [name: keyof TokenPricing, theirs: readonly string[]])[] = [
  ['input', ['input', 'prompt']],
  ['output', ['output', 'completion']],
  ['cachedInput', ['input_cache_read']],
  ['cacheWriteInput', ['input_cache_write']],
  ['audioInput', ['audio']],
  ['imageInput', ['image_token']],
  ['reasoningOutput', ['internal_reasoning']],
  ['audioOutput', ['audio_output']],
  ['imageOutput', ['image_output']],
];

const MAX_TIERS = 16;

/**
 * What a provider's own list says that a model costs: decimal strings in USD per token, as OpenRouter and Vercel write them.
 *
 * @returns undefined where it isn't said, or not so that we could charge it: other units, prices by the time of day
 */
export function pricingFromList(pricing: Json): Pricing | undefined {
  if (!isRecord(pricing)) return undefined;
  const base = ratesOf(pricing, {});
  if (!base) return undefined;
  const tiers = [...vercelTiers(pricing, base), ...openRouterTiers(pricing, base)];
  if (tiers.length > MAX_TIERS || tiers.includes(undefined)) return undefined;
  const request = feeOf(pricing['request']);
  // Only OpenRouter's usage tells of searches by its own price for them.
  const webSearch = 'prompt' in pricing ? feeOf(pricing['web_search']) : '0';
  if (request === undefined || webSearch === undefined) return undefined;
  return {
    ...base,
    ...(tiers.length > 0 && { tiers: tiers.filter((tier) => tier !== undefined) }),
    ...(request !== '0' && { request }),
    ...(webSearch !== '0' && { webSearch }),
  };
}

/** Undefined without a price of both input and output, or with one that is none. */
function ratesOf(
  pricing: Readonly<Record<string, Json>>,
  otherwise: Partial<TokenPricing>,
): TokenPricing | undefined {
  const rates: { -readonly [name in keyof TokenPricing]?: string } = { ...otherwise };
  for (const [name, theirs] of RATES) {
    const given = theirs.map((member) => pricing[member]).find((each) => each !== undefined);
    if (given === undefined || given === null) continue;
    const rate = perMillion(given);
    if (rate === undefined) return undefined;
    rates[name] = rate;
  }
  const { input, output } = rates;
  return input === undefined || output === undefined ? undefined : { ...rates, input, output };
}

/** A number would be another unit: Together lists USD per million so. */
function perMillion(given: Json): string | undefined {
  return typeof given === 'string' ? shiftDecimal(given, 6, 6) : undefined;
}

/** USD per call; undefined where it is there and can't be read. */
function feeOf(given: Json): string | undefined {
  if (given === undefined || given === null || given === 0) return '0';
  return typeof given === 'string' ? shiftDecimal(given, 0, 9) : undefined;
}

/** `input_tiers: [{ cost, min, max }]`, and so for other rates: from `min` tokens on. */
function vercelTiers(
  pricing: Readonly<Record<string, Json>>,
  base: TokenPricing,
): readonly (PricingTier | undefined)[] {
  const lists = RATES.map(([name, [theirs = '']]) => [name, pricing[`${theirs}_tiers`]] as const);
  const starts = new Set(lists.flatMap(([, list]) => entriesOf(list).map(({ min }) => min)));
  return [...starts]
    .filter((min) => typeof min !== 'number' || min > 0)
    .sort((a, b) => Number(a) - Number(b))
    .map((min) => {
      if (!isCount(min)) return undefined;
      const rates: { -readonly [name in keyof TokenPricing]?: string } = { ...base };
      for (const [name, list] of lists) {
        const entry = entriesOf(list).findLast((each) => isCount(each['min']) && each['min'] <= min);
        if (!entry) continue;
        const rate = perMillion(entry['cost']);
        if (rate === undefined) return undefined;
        rates[name] = rate;
      }
      return { ...base, ...rates, above: min - 1 };
    });
}

/** `overrides: [{ min_prompt_tokens, prompt, … }]`: a later one counts, and what it leaves out stays as it was. */
function openRouterTiers(
  pricing: Readonly<Record<string, Json>>,
  base: TokenPricing,
): readonly (PricingTier | undefined)[] {
  let rates: TokenPricing | undefined = base;
  return entriesOf(pricing['overrides']).map((override) => {
    const min = override['min_prompt_tokens'];
    rates = rates && ratesOf(override, rates);
    return isCount(min) && min > 1 && rates ? { ...rates, above: min - 1 } : undefined;
  });
}

function entriesOf(list: Json): readonly Readonly<Record<string, Json>>[] {
  return Array.isArray(list) ? list.filter(isRecord) : [];
}

function isCount(given: Json): given is number {
  return typeof given === 'number' && Number.isSafeInteger(given) && given >= 0;
}
