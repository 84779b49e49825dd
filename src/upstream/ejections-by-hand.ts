import { isDeepStrictEqual } from 'node:util';

import type { Target } from '../catalog/model.ts';
import { TargetsEjectedError } from '../errors/upstream-errors.ts';
import type { HealthChange } from '../observability/hooks.ts';
import type { EjectionByHand } from '../observability/provider-status.ts';

/** In place of a health key: all targets of the provider. A pattern may be `*`. */
const ALL = '';

/** An ejection, and of what. */
export interface PlacedEjection {
  readonly provider: string;
  /** The target's health key; undefined: all targets of the provider. */
  readonly model?: string | undefined;
  readonly ejection: EjectionByHand;
}

type ByModel = Map<string, EjectionByHand>;

/** The providers and targets that operators have ejected, or that have cost what they may. They outlive a reload. */
export class EjectionsByHand {
  /** By provider and health key. */
  #byProvider: ReadonlyMap<string, ByModel> = new Map();
  readonly #emit: (change: HealthChange) => void;

  constructor(emit: (change: HealthChange) => void) {
    this.#emit = emit;
  }

  /** Without any, no request looks further. */
  get isEmpty(): boolean {
    return this.#byProvider.size === 0;
  }

  /** From now on these are ejected, and no others: tells of those that are new, changed or gone. Of two of a place, the first counts. */
  replace(given: readonly PlacedEjection[]): void {
    const before = this.#byProvider;
    const after = new Map<string, ByModel>();
    for (const { provider, model = ALL, ejection } of given) {
      let models = after.get(provider);
      if (!models) after.set(provider, (models = new Map()));
      if (!models.has(model)) models.set(model, ejection);
    }
    this.#byProvider = after;
    for (const [provider, model, ejection] of entriesOf(before)) {
      if (!after.get(provider)?.has(model)) this.#tell('target_recovered', provider, model, ejection);
    }
    for (const [provider, model, ejection] of entriesOf(after)) {
      if (isDeepStrictEqual(before.get(provider)?.get(model), ejection)) continue;
      this.#tell('target_ejected', provider, model, ejection);
    }
  }

  /** Ends those whose time is over. */
  expire(now: number): void {
    const isOver = ({ until }: EjectionByHand): boolean => until !== undefined && until.getTime() <= now;
    const all = entriesOf(this.#byProvider);
    if (!all.some(([, , ejection]) => isOver(ejection))) return;
    const left = all.filter(([, , ejection]) => !isOver(ejection));
    this.replace(left.map(([provider, model, ejection]) => ({ provider, model, ejection })));
  }

  /** The ejection of a target, or of its provider. */
  of({ provider, healthKey }: Target, now: number): EjectionByHand | undefined {
    if (this.isEmpty) return undefined;
    return this.ofProvider(provider.name, now) ?? this.#find(provider.name, healthKey, now);
  }

  /** Those that are not ejected. @throws {TargetsEjectedError} if all are */
  without(targets: readonly Target[], now: number): readonly Target[] {
    if (this.isEmpty) return targets;
    const left = targets.filter((target) => !this.of(target, now));
    if (left.length > 0) return left;
    const ends = targets.map((target) => this.of(target, now)?.until?.getTime() ?? Infinity);
    throw new TargetsEjectedError(Math.min(...ends) - now);
  }

  /** The ejection of a whole provider. */
  ofProvider(provider: string, now: number): EjectionByHand | undefined {
    return this.#find(provider, ALL, now);
  }

  #find(provider: string, model: string, now: number): EjectionByHand | undefined {
    const ejection = this.#byProvider.get(provider)?.get(model);
    if (ejection?.until === undefined || ejection.until.getTime() > now) return ejection;
    this.expire(now);
    return undefined;
  }

  #tell(
    type: HealthChange['type'],
    provider: string,
    model: string,
    { by, reason, until, stopAt }: EjectionByHand,
  ): void {
    this.#emit({
      type,
      provider,
      model: model === ALL ? '*' : model,
      ...(model === ALL && { wholeProvider: true }),
      failuresInARow: 0,
      ...(stopAt ? { stopAt } : { byHand: true }),
      ...(by !== undefined && { by }),
      ...(reason !== undefined && { reason }),
      ...(type === 'target_ejected' && until && { retryAt: until.getTime() }),
    });
  }
}

function entriesOf(byProvider: ReadonlyMap<string, ByModel>): (readonly [string, string, EjectionByHand])[] {
  return [...byProvider].flatMap(([provider, models]) =>
    [...models].map(([model, ejection]) => [provider, model, ejection] as const),
  );
}
