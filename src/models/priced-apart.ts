import type { Pricing } from '../metering/pricing.ts';

/** What a model's name says that it is billed for beside text, and the prices that say how much; of a list one is enough. */
const BILLED_APART: readonly (readonly [says: RegExp, prices: readonly (readonly (keyof Pricing)[])[]])[] = [
  // OpenRouter searches for models whose name ends so.
  [/(?<!re)search|:online\b/i, [['webSearch', 'request']]],
  [/deep.?research/i, [['webSearch', 'request']]],
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
