import type { UsageRow } from './range-usage.ts';
import { nanos } from '../format.ts';

export interface Sums {
  readonly requests: number;
  readonly errors: number;
  readonly aborted: number;
  readonly prompt: number;
  readonly cached: number;
  readonly completion: number;
  /** Prompt and completion. */
  readonly tokens: number;
  readonly charged: bigint;
  readonly cost: bigint;
  /** Whether rows say a cost at all: to operators, not to customers. */
  readonly hasCost: boolean;
  /** Charges of the usage with a known cost. */
  readonly costed: bigint;
}

export function sum(rows: readonly UsageRow[]): Sums {
  const sums = { requests: 0, errors: 0, aborted: 0, prompt: 0, cached: 0, completion: 0 };
  let [charged, cost, costed] = [0n, 0n, 0n];
  for (const row of rows) {
    sums.requests += row.requests;
    sums.errors += row.errors;
    sums.aborted += row.aborted;
    sums.prompt += row.prompt_tokens;
    sums.cached += row.cached_tokens;
    sums.completion += row.completion_tokens;
    const rowCharged = nanos(row.charged);
    const rowCost = nanos(row.cost);
    charged += rowCharged;
    cost += rowCost;
    if (rowCost > 0n) costed += rowCharged;
  }
  const hasCost = rows.some((row) => row.cost !== undefined);
  return { ...sums, tokens: sums.prompt + sums.completion, charged, cost, costed, hasCost };
}

/** Sorts by charge, highest first; without charges, by requests. */
export function byCharge(one: { readonly sums: Sums }, other: { readonly sums: Sums }): number {
  return Number(other.sums.charged - one.sums.charged) || other.sums.requests - one.sums.requests;
}
