import type { BoundedRates, Price } from '../metering/price.ts';

/** Checks that a hold by the ceiling covers the cost of the same tokens.
 *
 * @param option - path of the ceiling's option
 * @param costOption - path of the cost's option
 * @throws {TypeError} naming both, if the ceiling is lower, even with its markup
 */
export function assertCovers(ceiling: Price, cost: Price, option: string, costOption: string): void {
  const lower = lowerThan(ceiling, cost);
  if (lower !== undefined) {
    throw new TypeError(
      `${option}.${lower} is below that of ${costOption}: holds are calculated from the ceiling`,
    );
  }
  for (const [name, tier] of ceiling.serviceTiers) {
    const tierCost = cost.serviceTiers.get(name);
    if (!tierCost) continue;
    const tierPath = `serviceTiers[${JSON.stringify(name)}]`;
    assertCovers(tier, tierCost, `${option}.${tierPath}`, `${costOption}.${tierPath}`);
  }
}

/** The first lower price at any prompt length, comparing the most expensive tokens of each kind, as holds do. */
function lowerThan(ceiling: Price, cost: Price): string | undefined {
  const { numerator, denominator } = ceiling.markup;
  // A factor below 1 is an intended discount.
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
