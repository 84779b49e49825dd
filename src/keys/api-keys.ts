import type { KeyRecord, KeyStatus, RotateKeyResult } from '../ledger/contract/key-records.ts';
import type { LedgerStore } from '../ledger/contract/ledger-store.ts';
import { formatUsd } from '../ledger/contract/money.ts';
import {
  type KeyPolicy,
  type KeyPolicyChanges,
  policyOf,
  type Rotation,
  rotationOf,
  termsOf,
  withChanges,
  policyError,
} from './key-policy.ts';
import { hashApiKey, newApiKey, newKeyId } from './key-secret.ts';

/**
 * The host's API for keys. A key is shown once, when it is made; the store keeps its SHA-256.
 *
 * What is changed counts from the next completion on, in every process; for `GET` endpoints in other processes
 * within `keyCacheMs`.
 */
export interface ApiKeys {
  /**
   * Makes a key for an account; the first key makes the account.
   *
   * @throws {TypeError} naming the field that can't be right
   * @throws {ApiKeyConflictError} when the account has a key of that `id`
   * @throws {AccountLostError} when this process has known the account, and the store has lost it: see `recreate`
   */
  create(key: CreateApiKey): Promise<CreatedApiKey>;
  /** All keys of an account, revoked ones too, without what they were made of. */
  list(account: string): Promise<readonly ApiKeyInfo[]>;
  /** One key, with what it has spent, holds and runs; undefined when there is no such key. */
  get(account: string, id: string): Promise<ApiKeyDetails | undefined>;
  /**
   * Changes the fields that are given, and takes away those that are `null`; undefined when there is no such key.
   *
   * What the key has spent, holds and runs stays. A limit per minute that changes begins anew, full.
   *
   * @throws {TypeError} naming the field that can't be right; nothing was changed
   */
  update(account: string, id: string, changes: KeyPolicyChanges): Promise<ApiKeyInfo | undefined>;
  /**
   * Gives a key another secret: id, policy and counters stay. The secret of now works for `overlapMs` longer;
   * one that was still in its own overlap ends at once. Undefined when there is no such key.
   *
   * @throws {ApiKeyConflictError} when it is revoked, or was rotated by the same `id`
   */
  rotate(account: string, id: string, options?: RotateOptions): Promise<CreatedApiKey | undefined>;
  /**
   * Refuses a key from now on, for good.
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

export interface CreateApiKey extends KeyPolicy {
  /** Who pays: 1 to 64 of `A-Z a-z 0-9 _ -`. */
  readonly account: string;
  /**
   * The key's id in its account, of the same characters; so a creation that is repeated is found.
   *
   * @default ten random characters
   */
  readonly id?: string;
  /**
   * Make the account again, without what it had, if this process has known it and the store has lost it. For an operator
   * who has decided so: without it such a key is refused with `account_lost`, and nothing is made.
   *
   * @default false
   */
  readonly recreate?: boolean;
}

export interface RotateOptions {
  /** @default 0 */
  readonly overlapMs?: number;
  /**
   * The rotation's own id, 1 to 64 of `A-Z a-z 0-9 _ -`: a repetition of the last one that was given an id is found,
   * and refused.
   *
   * @default none: each call makes another secret
   */
  readonly id?: string;
}

export interface ApiKeyInfo extends KeyPolicy {
  readonly id: string;
  readonly account: string;
  readonly name: string;
  readonly state: 'active' | 'revoked' | 'expired';
  readonly createdAt: Date;
  readonly revokedAt?: Date;
  /** When its previous secret ends, or ended. */
  readonly overlapUntil?: Date;
}

/** With how it stands now; amounts are decimal strings in USD. */
export interface ApiKeyDetails extends ApiKeyInfo {
  /** Charged in the budget's day, week or month of now; ever, without a budget. */
  readonly spent: string;
  /** What its running requests hold. */
  readonly held: string;
  /** Requests that run. */
  readonly running: number;
  /** What new requests may hold of the budget. */
  readonly budgetLeft?: string;
  /** When the budget begins anew. */
  readonly budgetResetsAt?: Date;
  readonly requestsLeft?: number;
  readonly tokensLeft?: number;
}

export interface CreatedApiKey extends ApiKeyInfo {
  /** `sk-ccr-…`: give it to its user now, it can't be had again. */
  readonly key: string;
}

/** A key that can't be made or changed; `code` is stable and says why. */
export class ApiKeyConflictError extends Error {
  override readonly name = 'ApiKeyConflictError';
  readonly code: 'key_exists' | 'key_revoked' | 'key_changing' | 'already_rotated' | 'rotation_differs';

  constructor(code: ApiKeyConflictError['code'], account: string, id: string) {
    super(`key ${id} of account ${account} ${CONFLICT_MESSAGES[code]}`);
    this.code = code;
  }
}

const CONFLICT_MESSAGES: Record<ApiKeyConflictError['code'], string> = {
  key_exists: 'exists already; its secret can not be had again, but it can be rotated',
  key_revoked: 'is revoked, which is for good: make another one',
  key_changing: 'is being changed by others all the time: try again',
  already_rotated:
    'was rotated by this id already; that secret can not be had again, but it can be rotated anew',
  rotation_differs: 'was rotated by this id with another overlap',
};

/** What has to be told of keys that change. */
export interface KeyCache {
  invalidate(account: string, id: string): void;
  forget(apiKey: string): void;
}

/** Others that change the same key at the same time are given way so often. */
const MAX_ATTEMPTS = 10;

/** @param now - the store's clock, in ms */
export function createApiKeys(store: LedgerStore, cache: KeyCache, now: () => number = Date.now): ApiKeys {
  /** Makes a change from how the key stands, until nobody else was faster. */
  async function change<Result extends { readonly code: string }>(
    account: string,
    id: string,
    make: (state: KeyStatus) => Promise<Result>,
  ): Promise<{ readonly result: Result; readonly info: ApiKeyInfo } | undefined> {
    for (let tries = 0; tries < MAX_ATTEMPTS; tries++) {
      const state = await store.keyState(account, id);
      if (!state) return undefined;
      const result = await make(state);
      cache.invalidate(account, id);
      if (result.code === 'changed') continue;
      const changed = await store.keyState(account, id);
      return changed && { result, info: toKeyInfo(changed, changed.now) };
    }
    throw new ApiKeyConflictError('key_changing', account, id);
  }

  return {
    async create({ account, id = newKeyId(), recreate, ...policy }) {
      checkId('account', account);
      checkId('id', id);
      const terms = termsOf(withChanges(policy, {}));
      const { expiresAt } = terms;
      if (expiresAt !== undefined && expiresAt <= now()) {
        throw policyError('expiresAt', 'in the future', new Date(expiresAt));
      }
      const key = newApiKey(id);
      const command = {
        account,
        key: id,
        hash: hashApiKey(key),
        ...terms,
        ...(recreate !== undefined && { recreate }),
      };
      const { code, now: createdAt } = await store.createKey(command);
      if (code === 'conflict') throw new ApiKeyConflictError('key_exists', account, id);
      const record = {
        ...command,
        limits: terms.limits ?? {},
        state: 'active',
        createdAt,
        version: 1,
      } as const;
      return { key, ...toKeyInfo(record, createdAt) };
    },

    async list(account) {
      const at = now();
      return (await store.keys(account)).map((record) => toKeyInfo(record, at));
    },

    async get(account, id) {
      const state = await store.keyState(account, id);
      return state && { ...toKeyInfo(state, state.now), ...keyCounters(state) };
    },

    async update(account, id, changes) {
      // Before anything is asked: a mistake is told also of a key that there isn't.
      termsOf(withChanges({}, changes));
      const changed = await change(account, id, (state) =>
        store.updateKey({
          account,
          key: id,
          version: state.version,
          ...termsOf(withChanges(policyOf(state), changes), carriedRotation(state)),
        }),
      );
      return changed?.info;
    },

    async rotate(account, id, { overlapMs = 0, id: rotationId } = {}) {
      if (!Number.isSafeInteger(overlapMs) || overlapMs < 0 || overlapMs > MAX_OVERLAP_MS) {
        throw policyError('overlapMs', `an integer from 0 to ${MAX_OVERLAP_MS}`, overlapMs);
      }
      if (rotationId !== undefined) checkId('id', rotationId);
      const key = newApiKey(id);
      const hash = hashApiKey(key);
      const rotateFrom = (version: number): Promise<RotateKeyResult> =>
        store.rotateKey({ account, key: id, hash, version, overlapMs });
      const rotated = await change(account, id, async (state) => {
        const known = rotationId === undefined ? undefined : rotationOf(state);
        if (rotationId === undefined || known?.id === rotationId) {
          if (known && known.overlapMs !== overlapMs)
            throw new ApiKeyConflictError('rotation_differs', account, id);
          if (known && known.version !== state.version)
            throw new ApiKeyConflictError('already_rotated', account, id);
          return rotateFrom(state.version);
        }
        // Noted first, and made from the version that the note is of: whoever repeats it sees whether it was made.
        const { version } = state;
        const rotation = { id: rotationId, overlapMs, version: version + 1 };
        const noted = await store.updateKey({
          account,
          key: id,
          version,
          ...termsOf(policyOf(state), rotation),
        });
        return noted.code === 'ok' ? rotateFrom(noted.version) : noted;
      });
      if (rotated?.result.code === 'revoked') throw new ApiKeyConflictError('key_revoked', account, id);
      return rotated && { key, ...rotated.info };
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

/** As a change of the policy has to keep it: one that is still to be made is made from the version after it. */
function carriedRotation(state: KeyRecord): Rotation | undefined {
  const rotation = rotationOf(state);
  if (rotation?.version !== state.version) return rotation;
  return { ...rotation, version: state.version + 1 };
}

/** A year. */
const MAX_OVERLAP_MS = 366 * 24 * 60 * 60 * 1000;

function checkId(field: string, id: string): void {
  if (typeof id === 'string' && /^[\w-]{1,64}$/.test(id)) return;
  throw policyError(field, '1 to 64 characters A-Z a-z 0-9 _ -', id);
}

function toKeyInfo(record: KeyRecord, now: number): ApiKeyInfo {
  const { key: id, account, createdAt, revokedAt, expiresAt, overlapUntil } = record;
  const isExpired = expiresAt !== undefined && now >= expiresAt;
  return {
    id,
    account,
    ...policyOf(record),
    state: record.state === 'active' && isExpired ? 'expired' : record.state,
    createdAt: new Date(createdAt),
    ...(revokedAt !== undefined && { revokedAt: new Date(revokedAt) }),
    ...(overlapUntil !== undefined && { overlapUntil: new Date(overlapUntil) }),
  };
}

function keyCounters({
  spent,
  held,
  running,
  budgetLeft,
  budgetResetsAt,
  rates,
}: KeyStatus): Omit<ApiKeyDetails, keyof ApiKeyInfo> {
  return {
    spent: formatUsd(spent),
    held: formatUsd(held),
    running,
    ...(budgetLeft !== undefined && { budgetLeft: formatUsd(budgetLeft) }),
    ...(budgetResetsAt !== undefined && { budgetResetsAt: new Date(budgetResetsAt) }),
    ...(rates?.requests && { requestsLeft: rates.requests.remaining }),
    ...(rates?.tokens && { tokensLeft: rates.tokens.remaining }),
  };
}
