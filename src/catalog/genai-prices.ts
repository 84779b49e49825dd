import type { ModelPrice, Provider, TieredPrices } from '@pydantic/genai-prices';
import { calcPrice, findProvider } from '@pydantic/genai-prices';

import { shiftDecimal } from '../metering/decimal.ts';
import type { Pricing, PricingTier, TokenPricing } from '../metering/pricing.ts';
import type { CatalogEntry, PriceCatalog, PriceQuery } from '../options/model-options.ts';

/** The package's prices, in USD per million tokens, that correspond to ours. */
const TOKEN_PRICES: readonly (readonly [name: keyof TokenPricing, theirs: string])[] = [
  ['input', 'input_mtok'],
  ['output', 'output_mtok'],
  ['cachedInput', 'cache_read_mtok'],
  ['cacheWriteInput', 'cache_write_mtok'],
  ['audioInput', 'input_audio_mtok'],
  ['imageInput', 'input_image_mtok'],
  ['reasoningOutput', 'output_reasoning_mtok'],
  ['audioOutput', 'output_audio_mtok'],
  ['imageOutput', 'output_image_mtok'],
];

/** Providers whose usage counts searches as they are priced; for others a fee would only be held, never charged. */
const REPORTS_SEARCHES: ReadonlySet<string> = new Set(['openrouter', 'perplexity']);

/** The prices of `@pydantic/genai-prices`, for the option `prices`: `createChatCompletionsRouter({ prices: catalogPrices(), … })`.
 *
 * They are read from the installed package, without network access, when a router is created or reloaded. Prices loaded by the
 * package's own `updatePrices` apply after the next `router.reload({})`. If prices depend on the time of day, the highest applies.
 */
export function catalogPrices(): PriceCatalog {
  return { find: findEntry };
}

function findEntry({ provider: name, url, model }: PriceQuery): CatalogEntry | undefined {
  const provider = findProvider({ providerApiUrl: url }) ?? findProvider({ providerId: name });
  if (!provider) return undefined;
  const found = calcPrice(NO_USAGE, model, { provider });
  if (!found) return undefined;
  const dearest = timesOf(found.model.prices)
    .map((timestamp) => calcPrice(NO_USAGE, model, { provider, timestamp })?.model_price)
    .reduce<ModelPrice>(
      (most, price) => (price && isMoreExpensive(price, most) ? price : most),
      found.model_price,
    );
  const pricing = pricingOf(dearest, provider);
  const { context_window: contextWindow } = found.model;
  return pricing && { name: found.model.id, pricing, ...(contextWindow !== undefined && { contextWindow }) };
}

const NO_USAGE = { input_tokens: 0 };

/** One time in each hour of today, if prices depend on the time of day. */
function timesOf(prices: unknown): readonly Date[] {
  if (!Array.isArray(prices)) return [];
  const today = new Date().toISOString().slice(0, 10);
  return Array.from(
    { length: 24 },
    (_, hour) => new Date(`${today}T${String(hour).padStart(2, '0')}:45:00Z`),
  );
}

function isMoreExpensive(one: ModelPrice, other: ModelPrice): boolean {
  return basePrice(one['output_mtok']) > basePrice(other['output_mtok']);
}

function basePrice(price: ModelPrice[string]): number {
  return typeof price === 'number' ? price : (price?.base ?? 0);
}

function pricingOf(price: ModelPrice, provider: Provider): Pricing | undefined {
  const rates = ratesAt(price, 0);
  if (!rates) return undefined;
  const { requests_kcount: requests, web_searches_kcount: searches } = price;
  const starts = new Set(
    TOKEN_PRICES.flatMap(([, theirs]) => {
      const each = price[theirs];
      return typeof each === 'object' ? each.tiers.map(({ start }) => start) : [];
    }),
  );
  const tiers = [...starts]
    .sort((a, b) => a - b)
    .map((above): PricingTier | undefined => {
      const tier = ratesAt(price, above + 1);
      return tier && { above, ...tier };
    })
    .filter((tier) => tier !== undefined);
  return {
    ...rates,
    ...(tiers.length > 0 && { tiers }),
    ...(typeof requests === 'number' && { request: perCall(requests) }),
    ...(typeof searches === 'number' &&
      REPORTS_SEARCHES.has(provider.id) && { webSearch: perCall(searches) }),
  };
}

/** Price of one call, from the price of a thousand. */
function perCall(thousand: number): string {
  return shiftDecimal(String(thousand), -3, 9) ?? '0';
}

/** Token prices for a prompt of this length; undefined without both an input and an output price. */
function ratesAt(price: ModelPrice, promptTokens: number): TokenPricing | undefined {
  const rates: { -readonly [name in keyof TokenPricing]?: string } = {};
  for (const [name, theirs] of TOKEN_PRICES) {
    const each = price[theirs];
    if (each === undefined) continue;
    const tier = typeof each === 'number' ? each : tierPriceAt(each, promptTokens);
    const rate = shiftDecimal(String(tier), 0, 6);
    if (rate !== undefined) rates[name] = rate;
  }
  const { input, output } = rates;
  return input === undefined || output === undefined ? undefined : { ...rates, input, output };
}

function tierPriceAt({ base: lowest, tiers }: TieredPrices, promptTokens: number): number {
  let [price, from] = [lowest, -1];
  for (const tier of tiers) {
    if (tier.start < promptTokens && tier.start > from) [price, from] = [tier.price, tier.start];
  }
  return price;
}
