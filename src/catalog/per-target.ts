import type { Target } from './model.ts';
import type { Provider } from './provider.ts';

/** Learned state per target, kept while the provider's configuration is unchanged.
 *
 * Keyed by provider and health key, as a BYOK target is another object for the same target.
 */
export class PerTarget<T extends object> {
  readonly #byProvider = new WeakMap<Provider, Map<string, T>>();
  readonly #make: (target: Target) => T;

  /** @param make - creates the initial state of a target */
  constructor(make: (target: Target) => T) {
    this.#make = make;
  }

  of(target: Target): T {
    const { provider, healthKey } = target;
    let ofProvider = this.#byProvider.get(provider);
    if (!ofProvider) this.#byProvider.set(provider, (ofProvider = new Map<string, T>()));
    let known = ofProvider.get(healthKey);
    if (!known) ofProvider.set(healthKey, (known = this.#make(target)));
    return known;
  }

  /** Undefined if nothing was learned. */
  find({ provider, healthKey }: Target): T | undefined {
    return this.#byProvider.get(provider)?.get(healthKey);
  }
}
