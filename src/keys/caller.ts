import type { CreateKey } from '../ledger/contract/key-records.ts';
import type { Dimensions } from '../ledger/contract/usage.ts';
import type { Markup } from '../metering/markup.ts';
import type { RequiredLabel } from '../options/labels.ts';
import type { ModelPatterns } from '../options/model-patterns.ts';

/** The authenticated client of a request. */
export interface Caller {
  readonly account: string;
  /** The key's id, or the label that your `authenticate` gave it. */
  readonly key: string;
  /** The key was authenticated by your app and is not in the ledger. */
  readonly externalKey: boolean;
  /** For keys in the ledger: the version of the key record, for optimistic locking. */
  readonly keyVersion?: number;
  /** The version of its account's policy, 0 without one; undefined where that was not looked up. */
  readonly accountVersion?: number;
  /** Whom its requests are for, as your `authenticate` said. */
  readonly endUser?: string;
  /** What its requests are for, by the names of the tags' dimensions. */
  readonly tags?: Dimensions;
  /** Store time, in ms, at which the secret or the key expires and must be looked up again. */
  readonly until?: number;
  /** The only models that it may use; undefined for all. */
  readonly models?: ModelPatterns;
  /** Labels that targets of its requests must have; undefined for all. */
  readonly require?: readonly RequiredLabel[];
  /** Added to the prices of its requests. */
  readonly markup?: Markup;
  /** Of a session: its key, which is recorded with its first request. */
  readonly session?: CreateKey;
  /** Its own provider keys (BYOK). */
  readonly upstreamKeys?: ByokKeys;
}

/** Whose API key a request has. */
export interface AuthenticatedKey {
  readonly account: string;
  /** The key's ID, or the label that your `authenticate` gave it. */
  readonly key: string;
  /** `ledger`: made by `router.keys`. `session`: made by `router.sessions`. `host`: accepted by your `authenticate`. */
  readonly from: 'ledger' | 'session' | 'host';
  /** Whom its requests are for. */
  readonly endUser?: string;
}

export function authenticatedKey({ account, key, externalKey, session, endUser }: Caller): AuthenticatedKey {
  const from = session ? 'session' : externalKey ? 'host' : 'ledger';
  return { account, key, from, ...(endUser !== undefined && { endUser }) };
}

/** A caller's own provider keys (BYOK), in a private member so that neither logs nor JSON contain them. */
export class ByokKeys {
  readonly #byProvider = new Map<string, string>();

  /** @throws {TypeError} for an invalid key, without showing it */
  constructor(given: Readonly<Record<string, string | undefined>>) {
    if (typeof given !== 'object' || given === null || Array.isArray(given)) {
      throw new TypeError(`upstreamKeys of authenticate must be an object of strings, got ${typeof given}`);
    }
    for (const [provider, key] of Object.entries(given)) {
      if (key === undefined) continue;
      if (typeof key !== 'string' || !/^[\u0021-\u007e]+$/.test(key)) {
        throw new TypeError(
          `upstreamKeys of authenticate must be visible ASCII characters; the one for ${JSON.stringify(provider)} is not`,
        );
      }
      this.#byProvider.set(provider, key);
    }
  }

  /** @param provider - the provider's name in the config */
  of(provider: string): string | undefined {
    return this.#byProvider.get(provider);
  }
}
