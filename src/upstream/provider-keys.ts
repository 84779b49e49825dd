import { withTimeout } from '../async/timeout.ts';
import { UpstreamError } from '../errors.ts';
import { Evidence } from '../evidence.ts';
import type { Provider } from '../models/providers.ts';
import type { ApiKeySource } from '../options/provider-options.ts';

/** A key that one request may be sent with. */
export interface ProviderKey {
  /**
   * Asks for the key itself; what comes is never shown, not even to the host's log.
   *
   * @throws {UpstreamError} if it is missing, late or broken; where it has to be waited for, the promise rejects
   */
  read(): string | Promise<string>;
  /** The provider refused it, or it can't be had: others are used for a while, by all once several accounts met with that. */
  setAside(account?: string): void;
  /** The provider took it: whatever a request was refused for, it was not the key. */
  worked(): void;
  /** Which of the provider's keys it is, for those who operate it: `key 2 of 3`. */
  readonly name: string;
  /** Only then is setting it aside of use. */
  readonly isOneOfSeveral: boolean;
}

/** The router's own requests, for lists of models. */
const OPERATOR = '';

/** How long a key that failed is not used while there are others. */
const ASIDE_MS = 60_000;

/** The keys of all providers: whose turn it is, and which were refused. Its memory is as long as their lists. */
export class ProviderKeys {
  readonly #rings = new WeakMap<Provider, Ring>();
  readonly #now: () => number;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /**
   * The keys to try one request with, in this order: the one whose turn it is, then the others, without those
   * set aside for its account; where all are, the one that failed longest ago. Empty for a provider that takes none.
   */
  turn(provider: Provider, account: string = OPERATOR): readonly ProviderKey[] {
    let ring = this.#rings.get(provider);
    if (!ring) this.#rings.set(provider, (ring = new Ring(provider, this.#now)));
    return ring.turn(account);
  }
}

class Ring {
  readonly #keys: readonly RingKey[];
  readonly #now: () => number;
  #next = 0;

  constructor(provider: Provider, now: () => number) {
    const { length } = provider.apiKeys;
    this.#now = now;
    this.#keys = provider.apiKeys.map(
      (source, i) => new RingKey(provider, source, `key ${i + 1} of ${length}`, now),
    );
  }

  turn(account: string): readonly ProviderKey[] {
    const keys = this.#keys;
    if (keys.length < 2) return keys;
    const from = this.#next++ % keys.length;
    const inTurn = [...keys.slice(from), ...keys.slice(0, from)];
    const now = this.#now();
    const usable = inTurn.filter((key) => key.isUsableBy(account, now));
    if (usable.length > 0) return usable;
    return [inTurn.reduce((oldest, key) => ((key.failedAt ?? 0) < (oldest.failedAt ?? 0) ? key : oldest))];
  }
}

class RingKey implements ProviderKey {
  readonly name: string;
  readonly isOneOfSeveral: boolean;
  readonly #provider: Provider;
  readonly #source: ApiKeySource;
  readonly #now: () => number;
  readonly #refused = new Evidence();
  failedAt: number | undefined;

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
    return read instanceof Promise ? this.#waitFor(read) : this.#checked(read);
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
    return this.#checked(key);
  }

  #checked(key: string | undefined): string {
    if (typeof key !== 'string' || !/^[\u0021-\u007e]+$/.test(key)) throw missingKey(this.#provider.name);
    return key;
  }

  #missing(cause: unknown): UpstreamError {
    return Object.assign(missingKey(this.#provider.name), { cause });
  }

  isUsableBy(account: string, now: number): boolean {
    return (
      this.failedAt === undefined || now - this.failedAt >= ASIDE_MS || !this.#refused.countsFor(account)
    );
  }

  setAside(account: string = OPERATOR): void {
    this.failedAt = this.#now();
    this.#refused.add(account);
  }

  worked(): void {
    if (this.failedAt === undefined) return;
    this.failedAt = undefined;
    this.#refused.clear();
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
