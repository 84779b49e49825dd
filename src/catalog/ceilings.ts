import type { BoundedRates, Price } from '../metering/price.ts';

/**
 * What is held by a ceiling covers what the same tokens are said to cost.
 *
 * @param option - where the ceiling is given
 * @param costOption - where the cost is
 * @throws {TypeError} naming both, where the ceiling is the lower one, with its markup too
 */
export function assertCovers(ceiling: Price, cost: Price, option: string, costOption: string): void {
  const lower = lowerThan(ceiling, cost);
  if (lower !== undefined) {
    throw new TypeError(`${option}.${lower} is below that of ${costOption}: holds are made of it`);
  }
  for (const [name, tier] of ceiling.serviceTiers) {
    const tierCost = cost.serviceTiers.get(name);
    if (!tierCost) continue;
    const place = `serviceTiers[${JSON.stringify(name)}]`;
    assertCovers(tier, tierCost, `${option}.${place}`, `${costOption}.${place}`);
  }
}

/** The first price that is lower, at any length of a prompt: of the dearest tokens of each kind, which is what is held for. */
function lowerThan(ceiling: Price, cost: Price): string | undefined {
  const { numerator, denominator } = ceiling.markup;
  // A factor below 1 is a discount, which is meant.
  const [times, by] = numerator > denominator ? [numerator, denominator] : [1n, 1n];
  const isLower = (ours: bigint, theirs: bigint): boolean => ours * times < theirs * by;
  for (const above of [0, ...[...ceiling.tiers, ...cost.tiers].map((tier) => tier.above)]) {
    const where = above === 0 ? '' : ` for prompts above ${above} tokens`;
    const [ours, theirs] = [ratesAbove(above, ceiling), ratesAbove(above, cost)];
    if (isLower(ours.inputAtMost, theirs.inputAtMost)) return `input${where}`;
    if (isLower(ours.outputAtMost, theirs.outputAtMost)) return `output${where}`;
  }
  return (['request', 'webSearch'] as const).find((fee) => isLower(ceiling[fee], cost[fee]));
}

function ratesAbove(tokens: number, price: Price): BoundedRates {
  return price.tiers.findLast(({ above }) => above <= tokens) ?? price;
}
