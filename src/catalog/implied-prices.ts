import type { Pricing } from '../metering/pricing.ts';
import type { PricingOption } from '../options/model-options.ts';
import type { Provider } from './provider.ts';
import { PRESETS } from './presets.ts';

/**
 * Models that search the Web, or run other tools, whatever a request says: OpenAI's search and deep research models, OpenRouter's
 * `:online`, Perplexity's sonar, Groq's compound, Zhipu's alltools.
 */
const SEARCHES = /(?<!re)search|deep.?research|:online\b|(?:^|\/)sonar|compound|alltools/i;

/** Variants by which a client chooses among servers, or modes, that cost more: OpenRouter's, and any of Hugging Face. */
const VARIANTS = /:(?:nitro|exacto|extended|thinking|fastest)$/i;
const VARIANTS_AT: Readonly<Record<string, RegExp>> = {
  openrouter: /:(?!free$|floor$|online$)[^:/]+$/i,
  huggingface: /:(?!cheapest$)[^:/]+$/i,
};

/** What a model's name says that it is billed for beside text, and the prices that say how much; of a list one is enough. */
const BILLED_APART: readonly (readonly [says: RegExp, prices: readonly (readonly (keyof Pricing)[])[]])[] = [
  [SEARCHES, [['webSearch', 'request']]],
  [/audio|real.?time/i, [['audioInput'], ['audioOutput']]],
  [/image/i, [['imageInput'], ['imageOutput']]],
];

/**
 * Whether the names of a model say that it costs what its price says nothing of.
 *
 * @param names - the ID that clients ask for, the model's name at its provider, and that of the catalog's entry
 */
export function lacksPrices(names: readonly (string | undefined)[], pricing: Pricing): boolean {
  return BILLED_APART.some(
    ([says, prices]) =>
      names.some((name) => name !== undefined && says.test(name)) &&
      prices.some((oneOf) => oneOf.every((name) => pricing[name] === undefined)),
  );
}

/** A server of its owner's, which bills nothing. */
function isOwnServer({ preset }: Pick<Provider, 'preset'>): boolean {
  return preset !== undefined && PRESETS[preset]?.keyless === true;
}

/** Whether a model searches at a fee, by its name at a provider. */
export function searchesByName(model: string, provider: Pick<Provider, 'preset'>): boolean {
  return SEARCHES.test(model) && !isOwnServer(provider);
}

/**
 * Whether the name of a model says that it costs what a price of the operator's own says nothing of: a fee for searches; or other prices
 * for tokens, unless what the provider reports is charged.
 *
 * @param ceiling - of the catalog, where that is the ceiling
 */
export function costsMore(
  model: string,
  provider: Pick<Provider, 'preset'>,
  pricing: Exclude<PricingOption, 'catalog'>,
  ceiling: Pricing | undefined,
): boolean {
  const isReported = typeof pricing === 'object' && 'reported' in pricing;
  const given = isReported ? pricing.ceiling : pricing;
  const prices = given === 'catalog' ? ceiling : given === 'free' ? undefined : given;
  const isSearchPriced = prices?.webSearch !== undefined || prices?.request !== undefined;
  if (searchesByName(model, provider) && !isSearchPriced) return true;
  if (isReported || pricing === 'free' || isOwnServer(provider)) return false;
  return (VARIANTS_AT[provider.preset ?? ''] ?? VARIANTS).test(model);
}
