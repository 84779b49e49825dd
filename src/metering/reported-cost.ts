import { scaledDecimal } from './decimal.ts';

/** The member of `usage` in which a provider reports the cost of an answer. */
export type ReportedCostField = 'cost' | 'cost.total_cost' | 'cost_in_usd_ticks';

/** Members from which a cost is computed. */
export type CostMember = 'cost' | 'total_cost' | 'ticks' | 'market_cost' | 'upstream_cost';

/** More than any answer costs. */
const MAX_PICO_DOLLARS = 1_000n * 10n ** 12n;

const MEMBERS: Readonly<Record<ReportedCostField, CostMember>> = {
  cost: 'cost',
  'cost.total_cost': 'total_cost',
  cost_in_usd_ticks: 'ticks',
};

/**
 * The cost of an answer as its provider reports it; the last report counts.
 *
 * With BYOK at OpenRouter, `cost` is only OpenRouter's fee, and the upstream cost is a separate member. At Vercel, `cost`
 * is then 0, and `market_cost` is the upstream cost at list price.
 */
export class ReportedCost {
  readonly #member: CostMember;
  readonly #reported = new Map<CostMember, string>();
  /** The provider used the operator's own upstream key. */
  byok = false;

  constructor(field: ReportedCostField) {
    this.#member = MEMBERS[field];
  }

  /** @param text - the decimal as written */
  add(member: CostMember, text: string): void {
    this.#reported.set(member, text);
  }

  /** In pico-dollars; undefined if it wasn't reported, or isn't plausible. */
  read(): bigint | undefined {
    const cost = this.#pico(this.#member);
    if (cost === undefined) return undefined;
    const ofKey = this.byok ? this.#pico('upstream_cost') : undefined;
    const beside =
      this.#member === 'cost' ? (ofKey ?? (cost === 0n ? this.#pico('market_cost') : undefined)) : undefined;
    // The upstream cost wasn't reported.
    if (this.byok && cost === 0n && beside === undefined) return undefined;
    const sum = cost + (beside ?? 0n);
    return sum <= MAX_PICO_DOLLARS ? sum : undefined;
  }

  #pico(member: CostMember): bigint | undefined {
    const text = this.#reported.get(member);
    return text === undefined ? undefined : scaledDecimal(text, member === 'ticks' ? 2 : 12);
  }
}
