import type { Pricing } from '../metering/pricing.ts';
import type { PricingOption } from '../options/model-options.ts';
import type { Provider } from './provider.ts';
import { PRESETS } from './presets.ts';

/** Models that always search the Web, or run other tools: OpenAI's search and deep research models, OpenRouter's
 * `:online`, Perplexity's sonar, Groq's compound, Zhipu's alltools.
 */
const SEARCHES = /(?<!re)search|deep.?research|:online\b|(?:^|\/)sonar|compound|alltools/i;

/** Suffixes by which a client chooses servers or modes that cost more: OpenRouter's, and any of Hugging Face's. */
const VARIANTS = /:(?:nitro|exacto|extended|thinking|fastest)$/i;
const VARIANTS_AT: Readonly<Record<string, RegExp>> = {
  openrouter: /:(?!free$|floor$|online$)[^:/]+$/i,
  huggingface: /:(?!cheapest$)[^:/]+$/i,
};

/** Name patterns of models that are billed for more than text, with the required prices; one price of each inner list is enough. */
const IMPLIED_PRICES: readonly (readonly [
  pattern: RegExp,
  prices: readonly (readonly (keyof Pricing)[])[],
])[] = [
  [SEARCHES, [['webSearch', 'request']]],
  [/audio|real.?time/i, [['audioInput'], ['audioOutput']]],
  [/image/i, [['imageInput'], ['imageOutput']]],
];

/** Whether a model's names imply prices that its pricing lacks.
 *
 * @param names - the ID for clients, the provider's name for the model, and the name of the catalog's entry
 */
export function lacksPrices(names: readonly (string | undefined)[], pricing: Pricing): boolean {
  return IMPLIED_PRICES.some(
    ([pattern, prices]) =>
      names.some((name) => name !== undefined && pattern.test(name)) &&
      prices.some((oneOf) => oneOf.every((name) => pricing[name] === undefined)),
  );
}

/** A self-hosted server, which bills nothing. */
function isSelfHosted({ preset }: Pick<Provider, 'preset'>): boolean {
  return preset !== undefined && PRESETS[preset]?.keyless === true;
}

/** Whether the provider's name for a model implies searches with a fee. */
export function searchesByName(model: string, provider: Pick<Provider, 'preset'>): boolean {
  return SEARCHES.test(model) && !isSelfHosted(provider);
}

/** Whether a model's name implies a cost that the operator's own pricing lacks: a fee for searches, or other token prices,
 * unless the provider's reported cost is charged.
 *
 * @param ceiling - the catalog's pricing, if that is the ceiling
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
  if (isReported || pricing === 'free' || isSelfHosted(provider)) return false;
  return (VARIANTS_AT[provider.preset ?? ''] ?? VARIANTS).test(model);
}
