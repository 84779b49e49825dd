import { scaledDecimal } from './decimal.ts';

/** The member of `usage` in which a provider reports what it bills for an answer. */
export type ReportedCostField = 'cost' | 'cost.total_cost' | 'cost_in_usd_ticks';

/** Members that a cost is read of. */
export type CostMember = 'cost' | 'total_cost' | 'ticks' | 'market_cost' | 'upstream_cost';

/** More than any answer costs. */
const MAX_PICO_DOLLARS = 1_000n * 10n ** 12n;

const MEMBERS: Readonly<Record<ReportedCostField, CostMember>> = {
  cost: 'cost',
  'cost.total_cost': 'total_cost',
  cost_in_usd_ticks: 'ticks',
};

/**
 * What a provider reports as the cost of an answer, of which the last word counts.
 *
 * With an operator's own key at OpenRouter `cost` is its fee alone, and what the key paid stands beside it;
 * at Vercel it is 0, and `market_cost` is what the key paid by the list.
 */
export class ReportedCost {
  readonly #member: CostMember;
  readonly #reported = new Map<CostMember, string>();
  /** The provider used a key of the operator's own. */
  byok = false;

  constructor(field: ReportedCostField) {
    this.#member = MEMBERS[field];
  }

  /** @param text - the decimal as it is written */
  add(member: CostMember, text: string): void {
    this.#reported.set(member, text);
  }

  /** In pico-dollars; undefined where it is not told, or can't be a cost. */
  read(): bigint | undefined {
    const cost = this.#pico(this.#member);
    if (cost === undefined) return undefined;
    const ofKey = this.byok ? this.#pico('upstream_cost') : undefined;
    const beside =
      this.#member === 'cost' ? (ofKey ?? (cost === 0n ? this.#pico('market_cost') : undefined)) : undefined;
    // What the key paid isn't told.
    if (this.byok && cost === 0n && beside === undefined) return undefined;
    const sum = cost + (beside ?? 0n);
    return sum <= MAX_PICO_DOLLARS ? sum : undefined;
  }

  #pico(member: CostMember): bigint | undefined {
    const text = this.#reported.get(member);
    return text === undefined ? undefined : scaledDecimal(text, member === 'ticks' ? 2 : 12);
  }
}
