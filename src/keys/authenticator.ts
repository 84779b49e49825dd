import type { IncomingHttpHeaders } from 'node:http';

import { LRUCache } from 'lru-cache';

import { type Answer, rejection, isLater } from '../async/answer.ts';
import { withTimeout } from '../async/timeout.ts';
import { AuthenticationError, AuthenticationUnavailableError } from '../errors/key-errors.ts';
import { RouterError } from '../errors/router-error.ts';
import { ACCOUNT_POLICY } from '../ledger/contract/key-records.ts';
import { type LedgerStore, StoreUnavailableError } from '../ledger/contract/ledger-store.ts';
import type { Authenticate, AuthenticateRequest } from '../options/authenticate-options.ts';
import { bothRequired, type RequiredLabel, requiredLabels } from '../options/labels.ts';
import { bothPatterns, ModelPatterns } from '../options/model-patterns.ts';
import { fromStore } from './from-store.ts';
import { hostCaller, loggableFailure } from './host-caller.ts';
import { keptPolicy } from './key-terms.ts';
import { bearerKey, hashApiKey, isApiKey } from './key-secret.ts';
import { type AuthenticatedKey, authenticatedKey, type Caller } from './caller.ts';
import type { SessionTokens } from './session-tokens.ts';
import { callerOfSession, isSession } from './sessions.ts';

export interface AuthenticatorOptions {
  readonly store: LedgerStore;
  readonly authenticate: Authenticate | undefined;
  readonly cacheKey: ((request: AuthenticateRequest) => string) | undefined;
  readonly keyCacheMs: number;
  /** Reads sessions; undefined if the router makes none. */
  readonly sessions?: SessionTokens | undefined;
  /** The store's clock, in ms since the epoch. */
  readonly now: () => number;
}

/** How long your `authenticate` may take. All requests of a key wait for one call, so one that hangs must end. */
const HOOK_TIMEOUT_MS = 10_000;

/** A few hundred bytes each. Rejected keys have their own cache, so a flood of them can't evict valid ones. */
const MAX_CALLERS = 50_000;
const MAX_REJECTED = 10_000;

/** Bounds a cache by its number of entries. With `max`, it would have a place for each from the start: four megabytes, which every full collection reads. */
const placesFor = (most: number): { readonly maxSize: number; readonly sizeCalculation: () => number } => ({
  maxSize: most,
  sizeCalculation: () => 1,
});
/** Short, because a rejected key may be created a moment later. */
const REJECTED_TTL_MS = 2000;

/** `Authorization` → caller, cached by the key's SHA-256: a heap dump contains no API keys. */
export class Authenticator {
  readonly #options: AuthenticatorOptions;
  readonly #callers: LRUCache<string, Caller, KeyLookup>;
  readonly #rejected: LRUCache<string, AuthenticationError>;
  /** Policies of the accounts that your `authenticate` names. */
  readonly #policies: LRUCache<string, AccountPolicy>;
  /** Results for which your `authenticate` read the headers, so they are valid for that one request only. */
  readonly #headerDependent = new WeakSet<Caller | Error>();
  /** Counts invalidations, and remembers the latest for each key: a look-up that began before it is discarded. */
  #generation = 0;
  readonly #invalidated = new LRUCache<string, number>(placesFor(MAX_REJECTED));

  constructor(options: AuthenticatorOptions) {
    this.#options = options;
    this.#callers = new LRUCache<string, Caller, KeyLookup>({
      ...placesFor(MAX_CALLERS),
      ttl: options.keyCacheMs,
      fetchMethod: async (hash, _stale, { context, options: entry }) => {
        const began = performance.now();
        const caller = await this.#find(hash, context);
        // The TTL starts when the look-up starts, so a slow look-up doesn't extend it.
        entry.ttl = Math.max(1, options.keyCacheMs - (performance.now() - began));
        return caller;
      },
    });
    this.#policies = new LRUCache({ ...placesFor(MAX_CALLERS), ttl: options.keyCacheMs });
    this.#rejected = new LRUCache({
      ...placesFor(MAX_REJECTED),
      ttl: Math.min(options.keyCacheMs, REJECTED_TTL_MS),
    });
  }

  /**
   * The caller of a request, from its headers alone: at once if its key is cached.
   *
   * @returns rejects with an AuthenticationError if the key is missing, unknown, revoked or expired
   */
  authenticate(headers: IncomingHttpHeaders): Answer<Caller> {
    try {
      return this.#callerOf(headers);
    } catch (error) {
      return rejection(error);
    }
  }

  #callerOf(headers: IncomingHttpHeaders): Answer<Caller> {
    const apiKey = bearerKey(headers.authorization);
    const { sessions, now } = this.#options;
    if (sessions && isSession(apiKey)) {
      return this.limited(callerOfSession(apiKey, headers.origin, sessions, now()));
    }
    const hash = this.#cacheKeyOf(apiKey, headers);
    const known = this.#callers.get(hash);
    if (known) {
      if (this.#isCurrent(known)) return known;
      this.#callers.delete(hash);
    }
    if (!this.#options.authenticate && !isApiKey(apiKey)) throw new AuthenticationError('invalid_api_key');
    const rejected = this.#rejected.get(hash);
    if (rejected) throw rejected;
    return this.#lookUp(hash, { apiKey, headers, readsHeaders: false });
  }

  /** Whose key a request has, for the host. */
  async keyOf(headers: IncomingHttpHeaders): Promise<AuthenticatedKey> {
    return authenticatedKey(await this.authenticate(headers));
  }

  /** The origins of the pages that may use the session of a request; undefined if it has none that is valid. */
  originsOf(headers: IncomingHttpHeaders): ReadonlySet<string> | undefined {
    const { sessions } = this.#options;
    const session = /^bearer +(ses-\S+) *$/i.exec(headers.authorization ?? '')?.[1];
    if (!sessions || session === undefined) return undefined;
    try {
      return new Set(sessions.read(session).origins);
    } catch {
      return new Set();
    }
  }

  get readsSessions(): boolean {
    return this.#options.sessions !== undefined;
  }

  /** Looks a key up, once for all concurrent requests with it, unless the result depends on a request's headers. */
  async #lookUp(hash: string, lookup: KeyLookup): Promise<Caller> {
    try {
      const caller = await this.#callers.forceFetch(hash, { context: lookup });
      if (lookup.readsHeaders || !this.#headerDependent.has(caller)) return caller;
    } catch (error) {
      if (lookup.readsHeaders || !(error instanceof Error && this.#headerDependent.has(error))) throw error;
    }
    return await this.#find(hash, lookup);
  }

  /** Looks a key up again after the ledger reported a newer version of it, or of its account's policy. */
  async refresh(headers: IncomingHttpHeaders, stale: Caller): Promise<Caller> {
    this.reject(headers, stale);
    this.#policies.delete(stale.account);
    return this.authenticate(headers);
  }

  /** Removes the caller of one request from the cache, whose key the ledger did not take: no walk through all of them. */
  reject(headers: IncomingHttpHeaders, caller: Caller): void {
    // It is in no cache.
    if (caller.session) return;
    const hash = this.#cacheKeyOf(bearerKey(headers.authorization), headers);
    if (this.#callers.peek(hash) === caller) this.#callers.delete(hash);
  }

  /** Removes an API key of the ledger from the cache, by its id. */
  invalidate(account: string, key: string): void {
    this.#invalidated.set(keySubject(account, key), ++this.#generation);
    const isPolicy = key === ACCOUNT_POLICY;
    if (isPolicy) this.#policies.delete(account);
    for (const [hash, caller] of this.#callers.entries()) {
      if (caller.account === account && (isPolicy || caller.key === key)) this.#callers.delete(hash);
    }
  }

  /** The caller as limited by the policy of its account, too. */
  async limited(caller: Caller): Promise<Caller> {
    const policy = this.#policies.get(caller.account) ?? (await this.#readPolicy(caller.account));
    return withPolicy(caller, policy);
  }

  /** Without an answer of the store, the admission finds out whether there is a policy. */
  async #readPolicy(account: string): Promise<AccountPolicy> {
    try {
      const { version = 0, policy } = (await this.#options.store.keyState(account, ACCOUNT_POLICY)) ?? {};
      const found = accountPolicyOf(version, policy);
      this.#policies.set(account, found);
      return found;
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      return { version: 0, models: undefined, require: undefined };
    }
  }

  /** Removes the result of your `authenticate` for an API key from the cache. */
  forget(apiKey: string): void {
    const own = hashApiKey(apiKey);
    this.#invalidated.set(own, ++this.#generation);
    for (const hash of [...this.#callers.keys(), ...this.#rejected.keys()]) {
      if (!hash.startsWith(own)) continue;
      this.#callers.delete(hash);
      this.#rejected.delete(hash);
    }
  }

  #isCurrent(caller: Caller): boolean {
    if (this.#headerDependent.has(caller)) return false;
    return caller.until === undefined || this.#options.now() < caller.until;
  }

  #cacheKeyOf(apiKey: string, headers: IncomingHttpHeaders): string {
    const { authenticate, cacheKey } = this.#options;
    const own = hashApiKey(apiKey);
    if (!authenticate || !cacheKey) return own;
    try {
      const more: unknown = cacheKey({ headers });
      if (typeof more !== 'string') throw new TypeError(`cacheKey must return a string, got ${typeof more}`);
      return `${own} ${hashApiKey(more)}`;
    } catch (thrown) {
      throw new AuthenticationUnavailableError(loggableFailure(thrown, headers));
    }
  }

  async #find(hash: string, lookup: KeyLookup): Promise<Caller> {
    for (;;) {
      const began = this.#generation;
      const found = await (this.#options.authenticate
        ? this.#callHook(this.#options.authenticate, lookup)
        : this.#findInStore(hash));
      const subject = found instanceof AuthenticationError ? '' : keySubject(found.account, found.key);
      const policy = found instanceof AuthenticationError ? '' : keySubject(found.account, ACCOUNT_POLICY);
      const generations = [hashApiKey(lookup.apiKey), subject, policy].map(
        (each) => this.#invalidated.get(each) ?? 0,
      );
      if (Math.max(...generations) > began) continue;
      if (!(found instanceof AuthenticationError)) return found;
      if (!lookup.readsHeaders) this.#rejected.set(hash, found);
      throw found;
    }
  }

  async #callHook(authenticate: Authenticate, lookup: KeyLookup): Promise<Caller | AuthenticationError> {
    const { apiKey, headers } = lookup;
    // With `cacheKey`, your app declares which headers the result depends on.
    const request = this.#options.cacheKey ? { headers } : trackHeaderAccess(lookup);
    let answer: Caller | Error;
    try {
      const given = authenticate(apiKey, request);
      const caller = hostCaller(isLater(given) ? await withTimeout(given, HOOK_TIMEOUT_MS, timedOut) : given);
      answer = caller ? await this.limited(caller) : new AuthenticationError('invalid_api_key');
    } catch (thrown) {
      answer =
        thrown instanceof RouterError
          ? thrown
          : new AuthenticationUnavailableError(loggableFailure(thrown, headers));
    }
    if (lookup.readsHeaders) this.#headerDependent.add(answer);
    if (!(answer instanceof Error) || answer instanceof AuthenticationError) return answer;
    throw answer;
  }

  async #findInStore(hash: string): Promise<Caller | AuthenticationError> {
    const record = await fromStore(() => this.#options.store.findKey(hash));
    if (!record) return new AuthenticationError('invalid_api_key');
    if (record.state === 'revoked') return new AuthenticationError('revoked_api_key');
    if (record.state === 'paused') return new AuthenticationError('paused_api_key');
    const { expiresAt = Infinity, hashUntil = Infinity } = record;
    if (this.#options.now() >= expiresAt) return new AuthenticationError('expired_api_key');
    const until = Math.min(expiresAt, hashUntil);
    const { markup, require, models } = keptPolicy(record.policy);
    const caller = {
      account: record.account,
      key: record.key,
      externalKey: false,
      keyVersion: record.version,
      ...(until < Infinity && { until }),
      ...(models && { models: new ModelPatterns(models) }),
      ...(require && { require: requiredLabels(require, 'key') }),
      ...(markup && { markup }),
    };
    const { version = 0, policy } = record.accountPolicy ?? {};
    return withPolicy(caller, accountPolicyOf(version, policy));
  }
}

/** The part of an account's policy that a process judges. */
interface AccountPolicy {
  readonly version: number;
  readonly models: ModelPatterns | undefined;
  readonly require: readonly RequiredLabel[] | undefined;
}

function withPolicy(caller: Caller, { version, ...ofAccount }: AccountPolicy): Caller {
  const models = bothPatterns(caller.models, ofAccount.models);
  const require = bothRequired(caller.require, ofAccount.require);
  return { ...caller, accountVersion: version, ...(models && { models }), ...(require && { require }) };
}

function accountPolicyOf(version: number, policy: string | undefined): AccountPolicy {
  const { models, require } = keptPolicy(policy);
  return {
    version,
    models: models && new ModelPatterns(models),
    require: require && requiredLabels(require, 'account'),
  };
}

function keySubject(account: string, key: string): string {
  return `${account} ${key}`;
}

function timedOut(): never {
  throw new Error(`authenticate has not answered within ${HOOK_TIMEOUT_MS} ms`);
}

interface KeyLookup {
  readonly apiKey: string;
  readonly headers: IncomingHttpHeaders;
  /** Whether your `authenticate` has read the headers. */
  readsHeaders: boolean;
}

/** Sets `readsHeaders` when `headers` is read. */
function trackHeaderAccess(lookup: KeyLookup): AuthenticateRequest {
  return {
    get headers() {
      lookup.readsHeaders = true;
      return lookup.headers;
    },
  };
}
