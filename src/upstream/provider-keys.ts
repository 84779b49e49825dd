import type { IncomingHttpHeaders } from 'node:http';

import { LRUCache } from 'lru-cache';

import { withTimeout } from '../async/timeout.ts';
import { UpstreamError } from '../errors/upstream-errors.ts';
import { Evidence } from '../metering/evidence.ts';
import type { Provider } from '../catalog/provider.ts';
import type { ProviderKeyStatus } from '../observability/provider-status.ts';
import { KEY_FAULT, SENDABLE_KEY } from '../options/option-checks.ts';
import type { ApiKeySource } from '../options/provider-options.ts';
import { rateLimitsIn } from './rate-limits.ts';

/** A provider's API key, for one request. */
export interface ProviderKey {
  /** Reads the key from its source. The value is never logged.
   *
   * @throws {UpstreamError} if the key is missing, late or malformed; an asynchronous source rejects
   */
  read(): string | Promise<string>;
  /** The provider rejected the key, or it can't be read: it isn't used for one minute, by any account once several had failures. */
  eject(account?: string): void;
  /** The provider accepted the key: ends its ejection. */
  worked(): void;
  /** A rate limit of the provider for this model is used up for `forMs`, or longer if it said so before: until then other keys are used for the model. */
  limit(model: string, forMs: number): void;
  /** An answer for this model arrived: its headers may say what is left of rate limits. */
  answered(model: string, headers: IncomingHttpHeaders): void;
  /** For the operator: `key 2 of 3`. */
  readonly name: string;
  /** Whether the provider has other keys. */
  readonly isOneOfSeveral: boolean;
}

/** Account name for the router's own requests, for lists of models. */
const OPERATOR = '';

/** How long an ejected key is not used while there are others. */
const EJECTION_MS = 60_000;
/** Models per key whose rate limits are remembered (LRU). */
const MAX_LIMITS = 256;
/** Models per key whose last answer's headers are kept, for operators. */
const MAX_ANSWERS = 32;
/** Shorter keys are not shown, not even in part. */
const MIN_SHOWN_LENGTH = 20;

/** The keys of all providers, in rotation, with their ejections and rate limits. */
export class ProviderKeys {
  readonly #pools = new WeakMap<Provider, KeyPool>();
  readonly #now: () => number;

  /** @param now - monotonic clock, in ms */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** The keys for one request, in the order of trying: the next in rotation first, without those that are ejected for this
   * account or rate-limited; if all are, the one that is free first. Empty for a provider without keys.
   *
   * @param model - the provider's name for the model, as most providers limit each model; default: none, for model lists
   * @param preferred - the name of the key that goes first, if it is free
   */
  keysFor(
    provider: Provider,
    model = '',
    account: string = OPERATOR,
    preferred?: string,
  ): readonly ProviderKey[] {
    return this.#poolOf(provider).keysFor(model, account, preferred);
  }

  /** The keys that were not tried yet and are free now.
   *
   * @param orLimited - if there are none, return the rate-limited key that is free first
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

  /** Time until one of the provider's keys is free for this model, in ms; 0 if one is free. */
  waitMs(provider: Provider, model: string, account: string = OPERATOR): number {
    return this.#poolOf(provider).waitMs(model, account);
  }

  /** The keys of a provider, for operators. */
  statuses(provider: Provider): readonly ProviderKeyStatus[] {
    return this.#poolOf(provider).statuses();
  }

  #poolOf(provider: Provider): KeyPool {
    let pool = this.#pools.get(provider);
    if (!pool) this.#pools.set(provider, (pool = new KeyPool(provider, this.#now)));
    return pool;
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

  keysFor(model: string, account: string, preferred: string | undefined): readonly ProviderKey[] {
    const keys = this.#keys;
    if (keys.length < 2) return keys;
    const from = this.#beginAt(model, account, preferred);
    const rotated = [...keys.slice(from), ...keys.slice(0, from)];
    const now = this.#now();
    const freeAt = (key: PooledKey): number => key.freeAt(model, account);
    const free = rotated.filter((key) => freeAt(key) <= now);
    if (free.length > 0) return free;
    return [rotated.reduce((first, key) => (freeAt(key) < freeAt(first) ? key : first))];
  }

  /** The index of the preferred key, or of the next one in rotation. */
  #beginAt(model: string, account: string, preferred: string | undefined): number {
    if (preferred !== undefined) {
      const index = this.#keys.findIndex(({ name }) => name === preferred);
      const key = this.#keys[index];
      if (key && key.freeAt(model, account) <= this.#now()) return index;
    }
    return this.#next++ % this.#keys.length;
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

  statuses(): readonly ProviderKeyStatus[] {
    return this.#keys.map((key) => key.status());
  }

  waitMs(model: string, account: string): number {
    const freeAt = Math.min(...this.#keys.map((key) => key.freeAt(model, account)));
    return Math.max(0, freeAt - this.#now());
  }
}

export class PooledKey implements ProviderKey {
  readonly name: string;
  readonly isOneOfSeveral: boolean;
  readonly #provider: Provider;
  readonly #source: ApiKeySource;
  readonly #now: () => number;
  readonly #refusals = new Evidence();
  #ejectedUntil = -Infinity;
  /** By model: the end of its rate limit. */
  readonly #limitedUntil = new LRUCache<string, number>({ max: MAX_LIMITS });
  /** By model. An answer changes its entry, and makes none. */
  readonly #answers = new Map<string, { headers: IncomingHttpHeaders; at: number }>();
  /** The last one that was read. */
  #secret: string | undefined;

  constructor(
    provider: Provider,
    source: ApiKeySource,
    name: string,
    now: () => number = () => performance.now(),
  ) {
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
    if (typeof key !== 'string' || key === '') throw unusableKey(this.#provider.name, 'is missing');
    if (!SENDABLE_KEY.test(key)) {
      const cause = new Error(`it ${KEY_FAULT}`);
      throw Object.assign(unusableKey(this.#provider.name, "can't be sent"), { cause });
    }
    this.#secret = key;
    return key;
  }

  #missing(cause: unknown): UpstreamError {
    return Object.assign(unusableKey(this.#provider.name, 'is missing'), { cause });
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
    this.#limitedUntil.set(model, Math.max(this.#now() + forMs, this.limitedUntil(model)));
  }

  answered(model: string, headers: IncomingHttpHeaders): void {
    const known = this.#answers.get(model);
    if (known) {
      known.headers = headers;
      known.at = Date.now();
      return;
    }
    const [oldest] = this.#answers.keys();
    if (oldest !== undefined && this.#answers.size >= MAX_ANSWERS) this.#answers.delete(oldest);
    this.#answers.set(model, { headers, at: Date.now() });
  }

  status(): ProviderKeyStatus {
    const now = this.#now();
    const limitedUntil = Math.max(0, ...this.#limitedUntil.values());
    const until = Math.max(this.#ejectedUntil, limitedUntil);
    const state = this.#ejectedUntil > now ? 'refused' : limitedUntil > now ? 'rate_limited' : 'available';
    const secret = typeof this.#source === 'string' ? this.#source : this.#secret;
    return {
      name: this.name,
      ...(secret !== undefined && secret.length >= MIN_SHOWN_LENGTH && { masked: `…${secret.slice(-4)}` }),
      state,
      // The only key is used all the same.
      ...(until > now && this.isOneOfSeveral && { until: new Date(Date.now() + until - now) }),
      limits: [...this.#answers].flatMap(([model, { headers, at }]) =>
        rateLimitsIn(headers, at).map(({ resetMs, ...left }) => ({
          model,
          ...left,
          ...(resetMs !== undefined && { resetAt: new Date(at + resetMs) }),
          at: new Date(at),
        })),
      ),
    };
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

/** `provider` is for `onError`; the message, for the client, doesn't name it. */
function unusableKey(provider: string, why: string): UpstreamError {
  const error = new UpstreamError(
    'upstream_refused_credentials',
    `The model's provider is not configured: its API key ${why}.`,
  );
  return Object.assign(error, { provider });
}
