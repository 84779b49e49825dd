import { LRUCache } from 'lru-cache';

import { withTimeout } from '../async/timeout.ts';
import { UpstreamError } from '../errors/errors.ts';
import { Evidence } from '../metering/evidence.ts';
import type { Provider } from '../catalog/provider.ts';
import type { ApiKeySource } from '../options/provider-options.ts';

/** A key that one request may be sent with. */
export interface ProviderKey {
  /**
   * Asks for the key itself; what comes is never shown, not even to the host's log.
   *
   * @throws {UpstreamError} if it is missing, late or broken; where it has to be waited for, the promise rejects
   */
  read(): string | Promise<string>;
  /** The provider refused it, or it can't be had: others are used for a minute, by all once several accounts met with that. */
  eject(account?: string): void;
  /** The provider took it: whatever a request was refused for, it was not the key. */
  worked(): void;
  /** The provider's limits leave it nothing for this model, for so many ms: others are used for it until then. */
  limit(model: string, forMs: number): void;
  /** Which of the provider's keys it is, for those who operate it: `key 2 of 3`. */
  readonly name: string;
  /** Only then is setting it aside of use. */
  readonly isOneOfSeveral: boolean;
}

/** The router's own requests, for lists of models. */
const OPERATOR = '';

/** How long a key that failed is not used while there are others. */
const EJECTION_MS = 60_000;
/** So many models have limits of their own at a key; of more, the one asked for longest ago is forgotten. */
const MAX_LIMITS = 256;

/** The keys of all providers: whose turn it is, and which were refused or have reached a limit. */
export class ProviderKeys {
  readonly #pools = new WeakMap<Provider, KeyPool>();
  readonly #now: () => number;

  /** @param now - a clock that is never set, in ms */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * The keys to try one request with, in this order: the one whose turn it is, then the others, without those that are
   * set aside for its account, or limited; where all are, the one that is free again first. Empty for a provider that
   * takes none.
   *
   * @param model - the model's name at the provider, as most limit each by itself; default: none, as for their list
   */
  keysFor(provider: Provider, model = '', account: string = OPERATOR): readonly ProviderKey[] {
    return this.#poolOf(provider).keysFor(model, account);
  }

  /**
   * Those to go on with that are not among these: all that are free by now.
   *
   * @param orLimited - where there are none, of those that are limited the one that is free first
   */
  untried(
    provider: Provider,
    model: string,
    account: string,
    tried: readonly ProviderKey[],
    orLimited: boolean,
  ): readonly ProviderKey[] {
    return this.#poolOf(provider).untried(model, account, tried, orLimited);
  }

  /** How long until one of its keys is free for this model, in ms; 0 if one is. */
  waitMs(provider: Provider, model: string, account: string = OPERATOR): number {
    return this.#poolOf(provider).waitMs(model, account);
  }

  #poolOf(provider: Provider): KeyPool {
    let ring = this.#pools.get(provider);
    if (!ring) this.#pools.set(provider, (ring = new KeyPool(provider, this.#now)));
    return ring;
  }
}

class KeyPool {
  readonly #keys: readonly PooledKey[];
  readonly #now: () => number;
  #next = 0;

  constructor(provider: Provider, now: () => number) {
    const { length } = provider.apiKeys;
    this.#now = now;
    this.#keys = provider.apiKeys.map(
      (source, i) => new PooledKey(provider, source, `key ${i + 1} of ${length}`, now),
    );
  }

  keysFor(model: string, account: string): readonly ProviderKey[] {
    const keys = this.#keys;
    if (keys.length < 2) return keys;
    const from = this.#next++ % keys.length;
    const inTurn = [...keys.slice(from), ...keys.slice(0, from)];
    const now = this.#now();
    const freeAt = (key: PooledKey): number => key.freeAt(model, account);
    const free = inTurn.filter((key) => freeAt(key) <= now);
    if (free.length > 0) return free;
    return [inTurn.reduce((first, key) => (freeAt(key) < freeAt(first) ? key : first))];
  }

  untried(
    model: string,
    account: string,
    tried: readonly ProviderKey[],
    orLimited: boolean,
  ): readonly ProviderKey[] {
    const now = this.#now();
    const others = this.#keys.filter((key) => !tried.includes(key));
    const free = others.filter((key) => key.freeAt(model, account) <= now);
    if (free.length > 0 || !orLimited) return free;
    const limited = others.filter((key) => key.limitedUntil(model) > now && key.ejectedUntil(account) <= now);
    return limited.toSorted((one, other) => one.limitedUntil(model) - other.limitedUntil(model)).slice(0, 1);
  }

  waitMs(model: string, account: string): number {
    const freeAt = Math.min(...this.#keys.map((key) => key.freeAt(model, account)));
    return Math.max(0, freeAt - this.#now());
  }
}

class PooledKey implements ProviderKey {
  readonly name: string;
  readonly isOneOfSeveral: boolean;
  readonly #provider: Provider;
  readonly #source: ApiKeySource;
  readonly #now: () => number;
  readonly #refusals = new Evidence();
  #ejectedUntil = -Infinity;
  /** By model, until when its limits leave nothing. */
  readonly #limitedUntil = new LRUCache<string, number>({ max: MAX_LIMITS });

  constructor(provider: Provider, source: ApiKeySource, name: string, now: () => number) {
    this.#provider = provider;
    this.#source = source;
    this.name = name;
    this.isOneOfSeveral = provider.apiKeys.length > 1;
    this.#now = now;
  }

  read(): string | Promise<string> {
    let read: ReturnType<Exclude<ApiKeySource, string>>;
    try {
      read = typeof this.#source === 'string' ? this.#source : this.#source();
    } catch (cause) {
      throw this.#missing(cause);
    }
    return read instanceof Promise ? this.#waitFor(read) : this.#assertUsable(read);
  }

  async #waitFor(reading: Promise<string | undefined>): Promise<string> {
    let key: string | undefined;
    try {
      const { connectMs } = this.#provider.timeouts;
      key = await withTimeout(reading, connectMs, () => {
        throw new Error(`apiKey did not resolve in ${connectMs} ms`);
      });
    } catch (cause) {
      throw this.#missing(cause);
    }
    return this.#assertUsable(key);
  }

  #assertUsable(key: string | undefined): string {
    if (typeof key !== 'string' || !/^[\u0021-\u007e]+$/.test(key)) throw missingKey(this.#provider.name);
    return key;
  }

  #missing(cause: unknown): UpstreamError {
    return Object.assign(missingKey(this.#provider.name), { cause });
  }

  eject(account: string = OPERATOR): void {
    this.#ejectedUntil = this.#now() + EJECTION_MS;
    this.#refusals.add(account);
  }

  worked(): void {
    if (this.#ejectedUntil === -Infinity) return;
    this.#ejectedUntil = -Infinity;
    this.#refusals.clear();
  }

  limit(model: string, forMs: number): void {
    this.#limitedUntil.set(model, this.#now() + forMs);
  }

  freeAt(model: string, account: string): number {
    return Math.max(this.ejectedUntil(account), this.limitedUntil(model));
  }

  ejectedUntil(account: string): number {
    return this.#refusals.countsFor(account) ? this.#ejectedUntil : -Infinity;
  }

  limitedUntil(model: string): number {
    return this.#limitedUntil.get(model) ?? -Infinity;
  }
}

/** The host is told which provider it is; the client is not. */
function missingKey(provider: string): UpstreamError {
  const error = new UpstreamError(
    'upstream_refused_credentials',
    "The model's provider is not set up here: its API key is missing.",
  );
  return Object.assign(error, { provider });
}
