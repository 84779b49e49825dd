import { type Price, type Rates, ratesFor } from '../metering/price.ts';

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

/**
 * What is held by a ceiling covers what the same tokens are said to cost.
 *
 * @param option - where the ceiling is given
 * @param costOption - where the cost is
 * @throws {TypeError} naming both, where the ceiling is the lower one, with its markup too
 */
export function assertCovers(ceiling: Price, cost: Price, option: string, costOption: string): void {
  const lower = lowerThan(ceiling, cost);
  if (lower !== undefined)
    throw new TypeError(`${option}.${lower} is below that of ${costOption}: holds are made of it`);
  for (const [name, tier] of ceiling.serviceTiers) {
    const tierCost = cost.serviceTiers.get(name);
    if (tierCost)
      assertCovers(tier, tierCost, `${option}.serviceTiers.${name}`, `${costOption}.serviceTiers.${name}`);
  }
}

/** The first price that is lower, at any length of a prompt. */
function lowerThan(ceiling: Price, cost: Price): string | undefined {
  const { numerator, denominator } = ceiling.markup;
  // A factor below 1 is a discount, which is meant.
  const [times, by] = numerator > denominator ? [numerator, denominator] : [1n, 1n];
  const isLower = (ours: bigint, theirs: bigint): boolean => ours * times < theirs * by;
  for (const above of [0, ...[...ceiling.tiers, ...cost.tiers].map((tier) => tier.above)]) {
    const [ours, theirs] = [ratesFor(above + 1, ceiling), ratesFor(above + 1, cost)];
    const name = RATES.find((each) => isLower(ours[each], theirs[each]));
    if (name !== undefined) return above === 0 ? name : `${name} for prompts above ${above} tokens`;
  }
  return (['request', 'webSearch'] as const).find((fee) => isLower(ceiling[fee], cost[fee]));
}
