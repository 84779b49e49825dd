import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

import type { LedgerStore } from '../ledger/ledger.ts';

/** The host's API for keys. A key is shown once, by `create`; the store keeps its SHA-256. */
export interface ApiKeys {
  /** Makes a key for an account; the first key makes the account. */
  create(key: { readonly account: string; readonly name?: string }): Promise<CreatedApiKey>;
  /** All keys of an account, revoked ones too, without what they were made of. */
  list(account: string): Promise<readonly ApiKeyInfo[]>;
  /**
   * Refuses a key from now on: completions at once, `GET` endpoints within `keyCacheMs`.
   *
   * @returns whether there was such a key
   */
  revoke(account: string, id: string): Promise<boolean>;
  /**
   * Forgets what your own `authenticate` said of an API key, in this process: it is asked again at once.
   *
   * Without it a key that you revoke is served for up to `keyCacheMs`.
   */
  forget(apiKey: string): void;
}

/** What has to be told of keys that change. */
export interface KeyCache {
  invalidate(account: string, id: string): void;
  forget(apiKey: string): void;
}

export interface ApiKeyInfo {
  readonly id: string;
  readonly account: string;
  readonly name: string;
  readonly state: 'active' | 'revoked';
  readonly createdAt: Date;
}

export interface CreatedApiKey extends ApiKeyInfo {
  /** `sk-ccr-…`: give it to its user now, it can't be had again. */
  readonly key: string;
}

const PREFIX = 'sk-ccr-';
const ID_LENGTH = 10;
const SECRET_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
const LENGTH = PREFIX.length + ID_LENGTH + SECRET_LENGTH + CHECKSUM_LENGTH;
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

export function createApiKeys(store: LedgerStore, cache: KeyCache): ApiKeys {
  return {
    async create({ account, name = '' }) {
      const id = randomText(ID_LENGTH);
      const unchecked = PREFIX + id + randomText(SECRET_LENGTH);
      const key = unchecked + checksum(unchecked);
      await store.createKey({ account, key: id, hash: hashApiKey(key), name });
      return { key, id, account, name, state: 'active', createdAt: new Date() };
    },

    async list(account) {
      const records = await store.keys(account);
      return records.map(({ key, name, state, createdAt }) => ({
        id: key,
        account,
        name,
        state,
        createdAt: new Date(createdAt),
      }));
    },

    async revoke(account, id) {
      const found = await store.revokeKey(account, id);
      cache.invalidate(account, id);
      return found;
    },

    forget(apiKey) {
      cache.forget(apiKey);
    },
  };
}

/** What stands for a key wherever it is kept. */
export function hashApiKey(apiKey: string): string {
  return hash('sha256', apiKey, 'hex');
}

/** Whether this can be a key of ours at all: tells typos and other people's keys without asking the store. */
export function isWellFormed(apiKey: string): boolean {
  return (
    apiKey.length === LENGTH &&
    apiKey.startsWith(PREFIX) &&
    checksum(apiKey.slice(0, -CHECKSUM_LENGTH)) === apiKey.slice(-CHECKSUM_LENGTH)
  );
}

function randomText(length: number): string {
  return Array.from({ length }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
}

function checksum(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    digits = ALPHABET[rest % ALPHABET.length] + digits;
    rest = Math.floor(rest / ALPHABET.length);
  }
  return digits;
}
