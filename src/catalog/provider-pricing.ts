import { shiftDecimal } from '../metering/decimal.ts';
import type { Pricing, PricingTier, TokenPricing } from '../metering/pricing.ts';
import { isRecord, type Json } from './json-value.ts';

/** Members of `pricing` in a provider's list, in USD per token: Vercel's and OpenRouter's. */
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

/** Reads a model's price from a provider's list: decimal strings in USD per token, as in OpenRouter's and Vercel's.
 *
 * @returns undefined without a price, or with one that can't be charged: other units, prices by the time of day
 */
export function pricingFromList(pricing: Json): Pricing | undefined {
  if (!isRecord(pricing)) return undefined;
  const base = ratesOf(pricing, {});
  if (!base) return undefined;
  const tiers = [...vercelTiers(pricing, base), ...openRouterTiers(pricing, base)];
  if (tiers.length > MAX_TIERS || tiers.includes(undefined)) return undefined;
  const request = feeOf(pricing['request']);
  // Only OpenRouter's usage counts searches as its price does.
  const webSearch = 'prompt' in pricing ? feeOf(pricing['web_search']) : '0';
  if (request === undefined || webSearch === undefined) return undefined;
  return {
    ...base,
    ...(tiers.length > 0 && { tiers: tiers.filter((tier) => tier !== undefined) }),
    ...(request !== '0' && { request }),
    ...(webSearch !== '0' && { webSearch }),
  };
}

/** Undefined without both an input and an output price, or with an invalid one. */
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

/** Strings only: a number is another unit, such as Together's USD per million. */
function perMillion(given: Json): string | undefined {
  return typeof given === 'string' ? shiftDecimal(given, 6, 6) : undefined;
}

/** USD per call; undefined if it is invalid. */
function feeOf(given: Json): string | undefined {
  if (given === undefined || given === null || given === 0) return '0';
  return typeof given === 'string' ? shiftDecimal(given, 0, 9) : undefined;
}

/** `input_tiers: [{ cost, min, max }]`, and the same for other rates: from `min` tokens on. */
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

/** `overrides: [{ min_prompt_tokens, prompt, … }]`: each one changes the rates of those before. */
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
