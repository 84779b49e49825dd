import type { Target } from '../catalog/model.ts';

/** A target of a model. */
export interface WeightedPlace {
  /** The model's ID; of a wildcard its pattern. */
  readonly id: string;
  readonly provider: string;
  /** The target's health key. */
  readonly model: string;
}

/** A weight that an operator has set. */
export interface WeightByHand {
  /** 0 or more. */
  readonly weight: number;
  readonly at: Date;
  /** Who did it; undefined if not given. */
  readonly by?: string;
}

/** The weights that operators have set, in place of those of the options. They outlive a reload. */
export class WeightsByHand {
  #byPlace: ReadonlyMap<string, WeightByHand> = new Map();

  replace(given: readonly (WeightedPlace & WeightByHand)[]): void {
    this.#byPlace = new Map(given.map((each) => [keyOf(each), each]));
  }

  /** Undefined if the target has the weight of its options. */
  find({ modelId, wildcard, provider, healthKey }: Target): WeightByHand | undefined {
    if (this.#byPlace.size === 0) return undefined;
    return this.#byPlace.get(keyOf({ id: wildcard ?? modelId, provider: provider.name, model: healthKey }));
  }

  of(target: Target): number {
    return this.find(target)?.weight ?? target.weight;
  }
}

function keyOf({ id, provider, model }: WeightedPlace): string {
  return JSON.stringify([id, provider, model]);
}
