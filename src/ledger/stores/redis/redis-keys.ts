import { ACCOUNT_KEYS } from './lua/account-lua.ts';

/** Sets that name accounts are this many, each in a slot of its own. */
export const SHARDS = 64;

/** Names of everything that a store keeps in Redis. */
export class RedisKeys {
  readonly #prefix: string;

  /** @throws {TypeError} for braces, which would take the place of ours, that keep an account in one slot */
  constructor(keyPrefix: string, clientsOwn = '') {
    for (const prefix of [keyPrefix, clientsOwn]) {
      if (/[{}]/.test(prefix)) {
        throw new TypeError(`keyPrefix must have no braces, got ${JSON.stringify(prefix)}`);
      }
    }
    this.#prefix = `${keyPrefix}ccr:`;
  }

  /** All that an account has, in one slot. */
  ofAccount(account: string): string[] {
    return ACCOUNT_KEYS.map((key) => `${this.#prefix}{${account}}:${key}`);
  }

  /** The counters of an account, which are among all that it has. */
  usage(account: string): string {
    return `${this.#prefix}{${account}}:u`;
  }

  /** Where the hash of an API key says whose it is. */
  pointer(hash: string): string {
    return `${this.#prefix}k:${hash}`;
  }

  /** A set of accounts: each is in the one that `shardOf` says. */
  accounts(shard: number): string {
    return `${this.#prefix}{acct${shard}}`;
  }

  /** A sorted set of accounts by when something of theirs comes due. Only a hint. */
  due(shard: number): string {
    return `${this.#prefix}{due${shard}}`;
  }
}

export function shardOf(account: string): number {
  let shard = 0;
  for (const character of account) shard = (shard * 31 + character.charCodeAt(0)) % SHARDS;
  return shard;
}
