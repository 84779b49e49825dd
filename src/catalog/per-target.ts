import type { Target } from './model.ts';
import type { Provider } from './provider.ts';

/**
 * What is remembered of each target, for as long as its provider is configured as it is.
 *
 * By the model's name there, not by the target: one that is asked with another key is another object.
 */
export class PerTarget<T extends object> {
  readonly #byProvider = new WeakMap<Provider, Map<string, T>>();
  readonly #make: (target: Target) => T;

  /** @param make - what is known of a target at first */
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

  /** Undefined where nothing is remembered. */
  find({ provider, healthKey }: Target): T | undefined {
    return this.#byProvider.get(provider)?.get(healthKey);
  }
}
