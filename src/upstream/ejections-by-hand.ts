import type { Target } from '../catalog/model.ts';
import type { HealthChange } from '../observability/hooks.ts';
import type { EjectionByHand } from '../observability/provider-status.ts';

/** In place of a health key: all targets of the provider. A pattern may be `*`. */
const ALL = '';

/** The providers and targets that operators of this process have ejected. They outlive a reload. */
export class EjectionsByHand {
  /** By provider and health key. */
  readonly #byProvider = new Map<string, Map<string, EjectionByHand>>();
  readonly #emit: (change: HealthChange) => void;

  constructor(emit: (change: HealthChange) => void) {
    this.#emit = emit;
  }

  /** Without any, no request looks further. */
  get isEmpty(): boolean {
    return this.#byProvider.size === 0;
  }

  /** @param model - the target's health key; all targets of the provider by default */
  eject(provider: string, ejection: EjectionByHand, model: string = ALL): void {
    let models = this.#byProvider.get(provider);
    if (!models) this.#byProvider.set(provider, (models = new Map()));
    models.set(model, ejection);
    this.#tell('target_ejected', provider, model, ejection);
  }

  /** @param model - as in `eject`; by default the provider and all its targets */
  readmit(provider: string, model?: string): void {
    const models = this.#byProvider.get(provider);
    for (const each of model === undefined ? [...(models?.keys() ?? [])] : [model]) this.#end(provider, each);
  }

  /** The ejection of a target, or of its provider. */
  of({ provider, healthKey }: Target, now: number): EjectionByHand | undefined {
    if (this.isEmpty) return undefined;
    return this.ofProvider(provider.name, now) ?? this.#find(provider.name, healthKey, now);
  }

  /** The ejection of a whole provider. */
  ofProvider(provider: string, now: number): EjectionByHand | undefined {
    return this.#find(provider, ALL, now);
  }

  #find(provider: string, model: string, now: number): EjectionByHand | undefined {
    const ejection = this.#byProvider.get(provider)?.get(model);
    if (ejection?.until === undefined || ejection.until.getTime() > now) return ejection;
    this.#end(provider, model);
    return undefined;
  }

  #end(provider: string, model: string): void {
    const models = this.#byProvider.get(provider);
    const ejection = models?.get(model);
    if (!models || !ejection) return;
    models.delete(model);
    if (models.size === 0) this.#byProvider.delete(provider);
    this.#tell('target_recovered', provider, model, ejection);
  }

  #tell(
    type: HealthChange['type'],
    provider: string,
    model: string,
    { by, reason, until }: EjectionByHand,
  ): void {
    this.#emit({
      type,
      provider,
      model: model === ALL ? '*' : model,
      ...(model === ALL && { wholeProvider: true }),
      failuresInARow: 0,
      byHand: true,
      ...(by !== undefined && { by }),
      ...(reason !== undefined && { reason }),
      ...(type === 'target_ejected' && until && { retryAt: until.getTime() }),
    });
  }
}
