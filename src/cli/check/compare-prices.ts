import { formatUsd, type NanoDollars } from '../../ledger/contract/money.ts';
import { NO_MARKUP } from '../../metering/markup.ts';
import { FREE, type Price, type Rates, ratesFor } from '../../metering/price.ts';
import { parsePricing, type Pricing } from '../../metering/pricing.ts';
import type { Target } from '../../catalog/model.ts';
import type { ListedModel } from '../../catalog/provider-model-list.ts';
import { priceQuestion } from '../../catalog/resolve-model.ts';
import type { PriceCatalog } from '../../options/model-options.ts';

/** Who says what a provider bills, the one that is believed most first. */
export type PriceSource = 'provider' | 'catalog' | 'package';

export const SOURCES: Readonly<Record<PriceSource, string>> = {
  provider: "by the provider's own list",
  catalog: "by the config's prices",
  package: 'by @pydantic/genai-prices',
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

/** What one model of the config charges for a target, beside what that costs. */
export interface ComparedPrice {
  /** The ID that clients ask for. */
  readonly model: string;
  /** With the markups of the model and the router, without those of a caller. */
  readonly charged: 'free' | ShownRates;
  /** Where the config gives it. */
  readonly cost?: ShownRates;
  /** Undefined where nobody knows what is billed. */
  readonly verdict?: 'ok' | 'free' | 'loss' | 'cost differs';
}

/** The catalogs that are asked where a provider's list has no price. */
export type PriceCatalogs = Readonly<Record<'catalog' | 'package', PriceCatalog | undefined>>;

/** The catalog that comes with `@pydantic/genai-prices`; undefined where that isn't installed. */
export async function installedPrices(): Promise<PriceCatalog | undefined> {
  try {
    const { catalogPrices } = await import('../../catalog/genai-prices.ts');
    return catalogPrices();
  } catch {
    return undefined;
  }
}

/** What the first source that knows it says of a target; undefined where none does. */
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
      // A price that can't be read is as good as none: the next source may have one.
    }
  }
  return undefined;
}

export function shownRates(price: Price): ShownRates {
  return { input: rate(price, 'input', price), output: rate(price, 'output', price) };
}

/**
 * What clients pay for a target, and what the config says that it costs, beside what is billed.
 *
 * Of a bill's rates, those count that are said, at each size of a prompt where something changes. What is free is meant to be.
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
          ? `${place} has a ceiling below what is billed, and holds too little: ${numbers} (${unit})`
          : `${place} is charged below what is billed: ${numbers} (${unit})`,
      ),
      ...others.map((numbers) => `${place} has a cost that isn't what is billed: ${numbers} (${unit})`),
    ],
  };
}

/** Whether an amount of ours is wrong, with the factor of our markup, beside one that is billed. */
type IsMismatch = (ours: bigint, billed: bigint, own: Price) => boolean;

const isBelow: IsMismatch = (ours, billed, { markup }) =>
  ours * markup.numerator < billed * markup.denominator;

const isDifferent: IsMismatch = (ours, billed) => ours !== billed;

/** The numbers of both at each size of a prompt where some are wrong. */
function differences(own: Price, { pricing, price: billed }: Billed, isWrong: IsMismatch): string[] {
  const sizes = new Set([0, ...[...billed.tiers, ...own.tiers].map(({ above }) => above)]);
  const fees = [requestFee(own), requestFee(billed)] as const;
  const feeIsWrong = isWrong === isBelow ? fees[0] < fees[1] : fees[0] !== fees[1];
  return [...sizes]
    .sort((a, b) => a - b)
    .flatMap((above) => {
      const [ours, theirs] = [ratesFor(above + 1, own), ratesFor(above + 1, billed)];
      const said = pricing.tiers?.findLast((tier) => tier.above <= above) ?? pricing;
      const wrong = RATES.filter((name) => name in said && isWrong(ours[name], theirs[name], own));
      if (wrong.length === 0 && !(above === 0 && feeIsWrong)) return [];
      const names = RATES.filter((name) => name === 'input' || name === 'output' || wrong.includes(name));
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

/** With the markup of its price; a rate is in micro-dollars per million. */
function rate({ markup }: Price, name: (typeof RATES)[number], rates: Rates): string {
  return formatUsd((rates[name] * 1000n * markup.numerator) / markup.denominator);
}

function requestFee({ request, markup }: Price): NanoDollars {
  if (markup === NO_MARKUP) return request;
  return (request * markup.numerator) / markup.denominator + markup.fee;
}
