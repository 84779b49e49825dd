import { LRUCache } from 'lru-cache';

import type { Target } from '../catalog/model.ts';
import type { Provider } from '../catalog/provider.ts';

/** Keys and models of a provider whose requests are counted (LRU). */
const MAX_COUNTED = 1000;

/**
 * What providers say is left of the requests of a key for a model, counted down by the requests that were sent since.
 *
 * Nothing is counted for a provider that says nothing.
 */
export class RequestsLeft {
  readonly #providers = new WeakMap<Provider, LRUCache<string, Countdown>>();

  /** A request is sent. Returns its number, for `answered`. */
  sent({ provider, model }: Target, key: string): number {
    const countdown = this.#providers.get(provider)?.get(nameOf(key, model));
    return countdown ? (countdown.sent += 1) : 0;
  }

  /**
   * The provider said how many requests it takes until its limit resets, when it had seen the request of this number: what was
   * sent later is not in it. The word about a later request counts.
   */
  answered({ provider, model }: Target, key: string, number: number, left: number, until: number): void {
    let countdowns = this.#providers.get(provider);
    if (!countdowns) this.#providers.set(provider, (countdowns = new LRUCache({ max: MAX_COUNTED })));
    const name = nameOf(key, model);
    const known = countdowns.get(name);
    if (!known) countdowns.set(name, { sent: number, number, most: number + left, until });
    else if (number >= known.number) Object.assign(known, { number, most: number + left, until });
  }

  /** Until when as many requests were sent as the provider takes; 0 if it takes more. */
  usedUpUntil({ provider, model }: Target, key: string): number {
    const countdown = this.#providers.get(provider)?.get(nameOf(key, model));
    return countdown && countdown.sent >= countdown.most ? countdown.until : 0;
  }
}

interface Countdown {
  /** Requests, in all. */
  sent: number;
  /** Of the request that the provider's word is about. */
  number: number;
  /** That may be sent before the limit resets. */
  most: number;
  /** When the limit resets. */
  until: number;
}

function nameOf(key: string, model: string): string {
  return `${key}\n${model}`;
}
