import type { UsageRow } from './range-usage.ts';
import { byCharge, sum } from './sums.ts';

/** Number of models with their own color. */
const TONES = 6;
/** Color of all other models. */
export const REST = 'tone-rest';

/** Assigns a color to each of the models with the highest charges; a model keeps its color if possible. */
export class ModelTones {
  readonly #last = new Map<string, string>();

  /** Colors by model, in the order of charges. */
  of(rows: readonly UsageRow[]): ReadonlyMap<string, string> {
    const models = [...Map.groupBy(rows, ({ model = '' }) => model)]
      .map(([model, rows]) => ({ model, sums: sum(rows) }))
      .sort(byCharge)
      .map(({ model }) => model);
    const colored = models.slice(0, TONES);
    this.#assign(colored);
    return new Map(models.map((model, i) => [model, (i < TONES && this.#last.get(model)) || REST]));
  }

  #assign(models: readonly string[]): void {
    const free = new Set(Array.from({ length: TONES }, (_, i) => `tone-${i}`));
    for (const model of models) {
      const tone = this.#last.get(model);
      if (tone !== undefined && !free.delete(tone)) this.#last.delete(model);
    }
    for (const model of models) {
      const [tone = REST] = free;
      if (this.#last.has(model)) continue;
      this.#last.set(model, tone);
      free.delete(tone);
    }
  }
}
