import { formatUsd, type NanoDollars } from '../../ledger/contract/money.ts';
import { NO_MARKUP } from '../../metering/markup.ts';
import { FREE, type Price, type Rates, ratesFor } from '../../metering/price.ts';
import { parsePricing, type Pricing } from '../../metering/pricing.ts';
import type { Target } from '../../catalog/model.ts';
import type { ListedModel } from '../../catalog/provider-model-list.ts';
import { priceQuestion } from '../../catalog/resolve-model.ts';
import type { PriceCatalog } from '../../options/model-options.ts';

/** Sources of a provider's prices, most reliable first. */
export type PriceSource = 'provider' | 'catalog' | 'package';

export const SOURCES: Readonly<Record<PriceSource, string>> = {
  provider: "from the provider's model list",
  catalog: "from the config's prices",
  package: 'from @pydantic/genai-prices',
};

/** What a provider bills for a model. */
export interface Billed {
  readonly source: PriceSource;
  readonly pricing: Pricing;
  readonly price: Price;
}

/** USD per million tokens, as decimal strings. */
export interface ShownRates {
  readonly input: string;
  readonly output: string;
}

/** What a model of the config charges for a target, compared with what the provider bills. */
export interface ComparedPrice {
  /** The model ID for clients. */
  readonly model: string;
  /** With the markups of the model and the router, without those of accounts and keys. */
  readonly charged: 'free' | ShownRates;
  /** If the config has it. */
  readonly cost?: ShownRates;
  /** Undefined if no source knows what is billed. */
  readonly verdict?: 'ok' | 'free' | 'loss' | 'cost differs';
}

/** Catalogs for providers whose list has no prices. */
export type PriceCatalogs = Readonly<Record<'catalog' | 'package', PriceCatalog | undefined>>;

/** The catalog of `@pydantic/genai-prices`; undefined if it isn't installed. */
export async function installedPrices(): Promise<PriceCatalog | undefined> {
  try {
    const { catalogPrices } = await import('../../catalog/genai-prices.ts');
    return catalogPrices();
  } catch {
    return undefined;
  }
}

/** What a provider bills for a target, from the first source that knows it; undefined if none does. */
export function findBilled(
  { provider, model }: Target,
  listed: ListedModel | undefined,
  catalogs: PriceCatalogs,
): Billed | undefined {
  const question = priceQuestion(provider, model);
  const find: Record<PriceSource, () => Pricing | undefined> = {
    provider: () => listed?.pricing,
    catalog: () => catalogs.catalog?.find(question)?.pricing,
    package: () => catalogs.package?.find(question)?.pricing,
  };
  for (const source of ['provider', 'catalog', 'package'] as const) {
    try {
      const pricing = find[source]();
      if (pricing) return { source, pricing, price: parsePricing(pricing, source) };
    } catch {
      // An invalid price counts as unknown: the next source may have one.
    }
  }
  return undefined;
}

export function shownRates(price: Price): ShownRates {
  return { input: rate(price, 'input', price), output: rate(price, 'output', price) };
}

/**
 * Compares the config's price and cost of a target with what the provider bills.
 *
 * Compares only the rates that the bill states, at each tier boundary. Free models are never reported as a loss.
 */
export function comparePrice(
  target: Target,
  billed: Billed | undefined,
): { readonly compared: ComparedPrice; readonly warnings: readonly string[] } {
  const { modelId, price, cost } = target;
  const facts = {
    model: modelId,
    charged: price === FREE ? ('free' as const) : shownRates(price),
    ...(cost && { cost: shownRates(cost) }),
  };
  if (!billed) return { compared: facts, warnings: [] };
  const losses = price === FREE ? [] : differences(price, billed, isBelow);
  const others = cost && !cost.reported ? differences(cost, billed, isDifferent) : [];
  const verdict =
    losses.length > 0 ? 'loss' : others.length > 0 ? 'cost differs' : price === FREE ? 'free' : 'ok';
  const place = `${modelId} at ${target.provider.name}/${target.model}`;
  const unit = `USD per million tokens, ${SOURCES[billed.source]}`;
  return {
    compared: { ...facts, verdict },
    warnings: [
      ...losses.map((numbers) =>
        price.reported
          ? `${place} has a maximum price below the bill, so it holds too little: ${numbers} (${unit})`
          : `${place} is charged below the bill: ${numbers} (${unit})`,
      ),
      ...others.map((numbers) => `${place} has a cost that differs from the bill: ${numbers} (${unit})`),
    ],
  };
}

/** Whether a configured amount, with its markup, mismatches the billed one. */
type IsMismatch = (ours: bigint, billed: bigint, own: Price) => boolean;

const isBelow: IsMismatch = (ours, billed, { markup }) =>
  ours * markup.numerator < billed * markup.denominator;

const isDifferent: IsMismatch = (ours, billed) => ours !== billed;

/** A line for each tier of prompt sizes with a mismatch, with the configured and the billed rates. */
function differences(own: Price, { pricing, price: billed }: Billed, isMismatch: IsMismatch): string[] {
  const sizes = new Set([0, ...[...billed.tiers, ...own.tiers].map(({ above }) => above)]);
  const fees = [requestFee(own), requestFee(billed)] as const;
  const feeDiffers = isMismatch === isBelow ? fees[0] < fees[1] : fees[0] !== fees[1];
  return [...sizes]
    .sort((a, b) => a - b)
    .flatMap((above) => {
      const [ours, theirs] = [ratesFor(above + 1, own), ratesFor(above + 1, billed)];
      const stated = pricing.tiers?.findLast((tier) => tier.above <= above) ?? pricing;
      const different = RATES.filter((name) => name in stated && isMismatch(ours[name], theirs[name], own));
      if (different.length === 0 && !(above === 0 && feeDiffers)) return [];
      const names = RATES.filter((name) => name === 'input' || name === 'output' || different.includes(name));
      const numbers = (rates: Rates, price: Price, fee: NanoDollars): string =>
        [
          ...names.map((name) => `${name} ${rate(price, name, rates)}`),
          ...(fees[0] > 0n || fees[1] > 0n ? [`a request ${formatUsd(fee)}`] : []),
        ].join(', ');
      const where = above === 0 ? '' : `prompts above ${above} tokens: `;
      return `${where}${numbers(ours, own, fees[0])}; billed ${numbers(theirs, billed, fees[1])}`;
    });
}

const RATES: readonly Exclude<keyof Rates, 'cacheWriteHourInput'>[] = [
  'input',
  'output',
  'cachedInput',
  'cacheWriteInput',
  'audioInput',
  'imageInput',
  'reasoningOutput',
  'audioOutput',
  'imageOutput',
];

/** A rate with markup, in USD per million tokens. */
function rate({ markup }: Price, name: (typeof RATES)[number], rates: Rates): string {
  return formatUsd((rates[name] * 1000n * markup.numerator) / markup.denominator);
}

function requestFee({ request, markup }: Price): NanoDollars {
  if (markup === NO_MARKUP) return request;
  return (request * markup.numerator) / markup.denominator + markup.fee;
}
