import { LRUCache } from 'lru-cache';

import { ACCOUNT_KEYS } from './lua/account-lua.ts';

/** Number of sets of account ids, each in its own slot. */
export const SHARDS = 64;

/** Accounts whose names of keys are kept: ten short strings each. */
const MAX_KEPT = 1000;

/** Names of all Redis keys of a store. */
export class RedisKeys {
  readonly #prefix: string;
  readonly #ofAccounts = new LRUCache<string, readonly string[]>({ max: MAX_KEPT });

  /** @throws {TypeError} for braces in a prefix: they would override the hash tags that keep an account in one slot */
  constructor(keyPrefix: string, clientsOwn = '') {
    for (const prefix of [keyPrefix, clientsOwn]) {
      if (/[{}]/.test(prefix)) {
        throw new TypeError(`keyPrefix must not contain braces, got ${JSON.stringify(prefix)}`);
      }
    }
    this.#prefix = `${keyPrefix}ccr:`;
  }

  /** All keys of an account, which are in one slot. */
  ofAccount(account: string): readonly string[] {
    let names = this.#ofAccounts.get(account);
    if (!names) {
      names = ACCOUNT_KEYS.map((key) => `${this.#prefix}{${account}}:${key}`);
      this.#ofAccounts.set(account, names);
    }
    return names;
  }

  /** The usage counters of an account; also in `ofAccount`. */
  usage(account: string): string {
    return `${this.#prefix}{${account}}:u`;
  }

  /** The API keys of an account; also in `ofAccount`. */
  apiKeys(account: string): string {
    return `${this.#prefix}{${account}}:k`;
  }

  /** The end users of an account; also in `ofAccount`. */
  endUsers(account: string): string {
    return `${this.#prefix}{${account}}:e`;
  }

  /** The pointer from the hash of an API key to its account and key id. */
  pointer(hash: string): string {
    return `${this.#prefix}k:${hash}`;
  }

  /** A set of account ids; an account is in the set of its `shardOf`. */
  accounts(shard: number): string {
    return `${this.#prefix}{acct${shard}}`;
  }

  /** A hash of the claimed names. */
  claims(): string {
    return `${this.#prefix}claims`;
  }

  /** A sorted set of the logged requests of all accounts. */
  log(): string {
    return `${this.#prefix}log`;
  }

  /** A sorted set of the logged requests of an account; not in `ofAccount`, as no script uses it. */
  logOf(account: string): string {
    return `${this.#prefix}{${account}}:log`;
  }

  /** Hashes of what operators have changed of the routing, and of what providers have cost: in one slot. */
  routing(): string[] {
    return [`${this.#prefix}{routing}`, `${this.#prefix}{routing}:costs`];
  }

  /** A hash of what the fleet used of a limit of a provider. */
  slot(name: string): string {
    return `${this.#prefix}up:{${name}}`;
  }

  /** A hash of the targets that are ejected for all accounts, and of limits that are used up. */
  health(): string {
    return `${this.#prefix}health`;
  }

  /** A list of where turns of conversations were served. Another format needs another key: who reads it stops at what it cannot read. */
  turns(): string {
    return `${this.#prefix}turns`;
  }

  /** A hash of the sums of deleted accounts, by ids that say nothing of them. */
  deleted(): string {
    return `${this.#prefix}deleted`;
  }

  /** A sorted set of gateways by the end of their leases. */
  gateways(): string {
    return `${this.#prefix}gateways`;
  }

  /** A sorted set of accounts by when something in them is due. Only a hint. */
  due(shard: number): string {
    return `${this.#prefix}{due${shard}}`;
  }
}

export function shardOf(account: string): number {
  let shard = 0;
  for (const character of account) shard = (shard * 31 + character.charCodeAt(0)) % SHARDS;
  return shard;
}
