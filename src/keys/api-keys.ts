import {
  ACCOUNT_POLICY,
  type KeyRecord,
  type KeyStatus,
  type RotateKeyResult,
} from '../ledger/contract/key-records.ts';
import { ACCOUNT_WANTED, isAccount } from '../ledger/contract/account-ids.ts';
import type { LedgerStore } from '../ledger/contract/ledger-store.ts';
import { isManaged, type KeyPolicy, type KeyPolicyChanges, MANAGED_BY, POLICY_FIELDS } from './key-policy.ts';
import { type LimitCounters, limitCounters } from './limit-counters.ts';
import { hashApiKey, isApiKey, newApiKey, newKeyId } from './key-secret.ts';
import { policyError, policyOfTerms, type Rotation, rotationOf, termsOf, withChanges } from './key-terms.ts';
import { MAX_OVERLAP_MS } from '../ledger/engine/validate-commands.ts';
import { optionsObject } from '../platform/options-object.ts';

/**
 * Manages API keys. A secret is returned only when it is created; the store keeps its SHA-256.
 *
 * A change applies from the next completion on, in every process; to `GET` endpoints of other processes within
 * `keyCacheMs`.
 */
export interface ApiKeys {
  /**
   * Creates a key for an account; the first key creates the account.
   *
   * @throws {TypeError} naming the invalid field
   * @throws {ApiKeyConflictError} if the account already has a key with this `id`
   * @throws {AccountLostError} if this process has known the account, and the store has lost it: see `recreate`
   */
  create(key: CreateApiKey): Promise<CreatedApiKey>;
  /** All keys of an account, including revoked ones, without secrets. */
  list(account: string): Promise<readonly ApiKeyInfo[]>;
  /** A key with its counters; undefined if there is no such key. */
  get(account: string, id: string): Promise<ApiKeyDetails | undefined>;
  /**
   * Changes the given fields, and removes those that are `null`; undefined if there is no such key.
   *
   * The key's counters stay. A changed limit per minute starts full. `metadata` is replaced as a whole; of a key whose
   * `managed_by` is `customer`, that note and `made_by` stay unless they are given or `metadata` is `null`.
   *
   * @throws {TypeError} naming the invalid field; nothing was changed
   */
  update(account: string, id: string, changes: KeyPolicyChanges): Promise<ApiKeyInfo | undefined>;
  /**
   * Replaces the secret of a key: id, policy and counters stay. The current secret works for `overlapMs` longer; the one
   * before it ends at once. Undefined if there is no such key.
   *
   * @throws {ApiKeyConflictError} if it is revoked, or was rotated with the same `id`
   */
  rotate(account: string, id: string, options?: RotateOptions): Promise<CreatedApiKey | undefined>;
  /**
   * Refuses the key until it is resumed; running requests continue and are charged. Undefined if there is no such key.
   *
   * @throws {ApiKeyConflictError} if it is revoked
   */
  pause(account: string, id: string): Promise<ApiKeyInfo | undefined>;
  /** Accepts a paused key again. As `pause`. */
  resume(account: string, id: string): Promise<ApiKeyInfo | undefined>;
  /**
   * The keys that a secret or an id belongs to, without their secrets, at most 100. A secret is found at once; for an id,
   * which several accounts may have, all accounts are read.
   */
  find(secretOrId: string): Promise<readonly ApiKeyInfo[]>;
  /**
   * Revokes a key permanently, from now on.
   *
   * @returns whether there is such a key
   */
  revoke(account: string, id: string): Promise<boolean>;
  /**
   * Revokes the only key that has this secret or id, such as one that has leaked; undefined if there is none.
   *
   * @throws {ApiKeyConflictError} if several accounts have a key with this id
   */
  revokeFound(secretOrId: string): Promise<ApiKeyInfo | undefined>;
  /**
   * Removes the cached result of your own `authenticate` for an API key, in this process: the next request calls it again.
   *
   * Otherwise a key that you revoke works for up to `keyCacheMs`.
   */
  forget(apiKey: string): void;
}

export interface CreateApiKey extends KeyPolicy {
  /** Account that pays: 1 to 128 visible ASCII characters other than quotes, braces and backslashes: `ann@example.com`. */
  readonly account: string;
  /**
   * The key's id in its account, 1 to 64 characters of `A-Z a-z 0-9 _ -`; makes a repeated creation detectable.
   *
   * @default ten random characters
   */
  readonly id?: string;
  /**
   * Recreate the account, without its data, if this process has known it and the store has lost it. An operator must
   * decide that: without it such a key is rejected with `account_lost`, and nothing is created.
   *
   * @default false
   */
  readonly recreate?: boolean;
}

export interface RotateOptions {
  /** How much longer the current secret works, in ms. @default 0 */
  readonly overlapMs?: number;
  /**
   * Id of the rotation, 1 to 64 characters of `A-Z a-z 0-9 _ -`: a second rotation with the id of the last one that had
   * an id is detected and rejected.
   *
   * @default none: each call makes another secret
   */
  readonly id?: string;
}

export interface ApiKeyInfo extends KeyPolicy {
  readonly id: string;
  readonly account: string;
  readonly name: string;
  readonly state: 'active' | 'paused' | 'revoked' | 'expired';
  readonly createdAt: Date;
  readonly revokedAt?: Date;
  /** When its previous secret expires or expired. */
  readonly overlapUntil?: Date;
}

/** A key with its current counters. */
export interface ApiKeyDetails extends ApiKeyInfo, LimitCounters {}

export interface CreatedApiKey extends ApiKeyInfo {
  /** The secret, `sk-ccr-…`: it is not stored, and can't be shown again. */
  readonly key: string;
}

/** The key, or the policy of the account, can't be created or changed; `code` is stable and names the reason. */
export class ApiKeyConflictError extends Error {
  override readonly name = 'ApiKeyConflictError';
  readonly code:
    | 'key_exists'
    | 'key_ambiguous'
    | 'key_revoked'
    | 'key_changing'
    | 'already_rotated'
    | 'rotation_differs';

  constructor(code: ApiKeyConflictError['code'], account: string, id: string) {
    super(
      id === ACCOUNT_POLICY
        ? `the policy of account ${account} was modified concurrently; retry`
        : `key ${id} of account ${account} ${CONFLICT_MESSAGES[code]}`,
    );
    this.code = code;
  }
}

const CONFLICT_MESSAGES: Record<ApiKeyConflictError['code'], string> = {
  key_exists: 'exists already; its secret can not be shown again, but the key can be rotated',
  key_ambiguous: 'is not the only one with this id; name the account',
  key_revoked: 'is revoked permanently; create another key',
  key_changing: 'was modified concurrently; retry',
  already_rotated:
    'was already rotated with this id; its secret can not be shown again, but rotated once more',
  rotation_differs: 'was already rotated with this id and another overlap',
};

/** The cache of authenticated keys, which must drop changed ones. */
export interface KeyCache {
  invalidate(account: string, id: string): void;
  forget(apiKey: string): void;
}

/** Attempts before giving up on a concurrently modified key (optimistic locking). */
const MAX_ATTEMPTS = 10;

/** @param now - the store's clock, in ms since the epoch */
export function createApiKeys(store: LedgerStore, cache: KeyCache, now: () => number = Date.now): ApiKeys {
  async function revoke(account: string, id: string): Promise<boolean> {
    const found = await store.revokeKey(account, id);
    cache.invalidate(account, id);
    return found;
  }

  return {
    create: (key) => createKey(store, key, now()),
    async list(account) {
      const at = now();
      return (await store.keys(account)).map((record) => toKeyInfo(record, at));
    },
    async get(account, id) {
      const status = await store.keyState(account, id);
      return status && { ...toKeyInfo(status, status.now), ...limitCounters(status) };
    },
    update: (account, id, changes) => updateKey({ store, cache, account, id }, changes),
    rotate: (account, id, options) => rotateKey({ store, cache, account, id }, options),
    pause: (account, id) => pauseKey({ store, cache, account, id }, true),
    resume: (account, id) => pauseKey({ store, cache, account, id }, false),
    async find(secretOrId) {
      const at = now();
      return (await findKeys(store, secretOrId)).map((record) => toKeyInfo(record, at));
    },
    revoke,
    async revokeFound(secretOrId) {
      const [found, another] = await findKeys(store, secretOrId);
      if (!found) return undefined;
      if (another) throw new ApiKeyConflictError('key_ambiguous', found.account, found.key);
      await revoke(found.account, found.key);
      const revoked = await store.keyState(found.account, found.key);
      return revoked && toKeyInfo(revoked, revoked.now);
    },
    forget(apiKey) {
      cache.forget(apiKey);
    },
  };
}

const CREATE_MEMBERS: Readonly<Record<keyof CreateApiKey, unknown>> = {
  account: true,
  id: true,
  recreate: true,
  ...POLICY_FIELDS,
};

async function createKey(store: LedgerStore, options: CreateApiKey, now: number): Promise<CreatedApiKey> {
  const given = optionsObject(options, CREATE_MEMBERS, "{ account }, as { account: 'acme' }");
  const { account, id = newKeyId(), recreate, ...policy } = given;
  if (!isAccount(account)) throw policyError('account', ACCOUNT_WANTED, account);
  checkId('id', id);
  const terms = termsOf(withChanges(policy, {}));
  const { expiresAt } = terms;
  if (expiresAt !== undefined && expiresAt <= now) {
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
  const record = { ...command, limits: terms.limits ?? {}, state: 'active', createdAt, version: 1 } as const;
  return { key, ...toKeyInfo(record, createdAt) };
}

interface KeyReference {
  readonly store: LedgerStore;
  readonly cache: KeyCache;
  readonly account: string;
  readonly id: string;
}

async function updateKey(
  reference: KeyReference,
  changes: KeyPolicyChanges,
): Promise<ApiKeyInfo | undefined> {
  // Validates first, so that invalid changes throw even if there is no such key.
  termsOf(withChanges({}, optionsObject(changes)));
  const changed = await changeKey(reference, (status) =>
    reference.store.updateKey({
      account: reference.account,
      key: reference.id,
      version: status.version,
      ...termsOf(changedPolicy(policyOfTerms(status), changes), carriedRotation(status)),
      ...pausedTerm(status),
    }),
  );
  return changed?.info;
}

/** Other notes don't take a key away from the customer who manages it. */
function changedPolicy(policy: KeyPolicy, changes: KeyPolicyChanges): KeyPolicy {
  const { metadata } = changes;
  if (!metadata || !isManaged(policy)) return withChanges(policy, changes);
  const { made_by: maker } = policy.metadata ?? {};
  const kept = { ...MANAGED_BY, ...(maker !== undefined && { made_by: maker }) };
  return withChanges(policy, { ...changes, metadata: { ...kept, ...metadata } });
}

async function pauseKey(reference: KeyReference, paused: boolean): Promise<ApiKeyInfo | undefined> {
  const { store, account, id } = reference;
  const changed = await changeKey(reference, (status) => {
    if (status.state === 'revoked') throw new ApiKeyConflictError('key_revoked', account, id);
    const terms = termsOf(policyOfTerms(status), carriedRotation(status));
    const { version } = status;
    return store.updateKey({ account, key: id, version, ...terms, ...(paused && { paused }) });
  });
  return changed?.info;
}

/** A changed key stays paused. */
function pausedTerm({ state }: KeyRecord): { readonly paused?: true } {
  return state === 'paused' ? { paused: true } : {};
}

/** Keys that are found by an id, at most. */
const MAX_FOUND = 100;
/** Accounts that are read concurrently. */
const AT_ONCE = 20;

async function findKeys(store: LedgerStore, secretOrId: string): Promise<readonly KeyRecord[]> {
  if (typeof secretOrId !== 'string') throw policyError('secretOrId', 'a string', typeof secretOrId);
  const found = await store.findKey(hashApiKey(secretOrId));
  if (found) return [found];
  // A secret that no key has any more is no id.
  if (!isKeyId(secretOrId) || isApiKey(secretOrId)) return [];
  const keys: KeyRecord[] = [];
  let accounts: string[] = [];
  const readSome = async (): Promise<void> => {
    const states = await Promise.all(accounts.map((account) => store.keyState(account, secretOrId)));
    keys.push(...states.filter((state) => state !== undefined));
    accounts = [];
  };
  for await (const account of store.accounts()) {
    accounts.push(account);
    if (accounts.length === AT_ONCE) await readSome();
    if (keys.length >= MAX_FOUND) break;
  }
  await readSome();
  return keys.slice(0, MAX_FOUND);
}

async function rotateKey(
  reference: KeyReference,
  options: RotateOptions = {},
): Promise<CreatedApiKey | undefined> {
  const { overlapMs = 0, id: rotationId } = optionsObject(options, { overlapMs: true, id: true });
  const { store, account, id } = reference;
  if (!Number.isSafeInteger(overlapMs) || overlapMs < 0 || overlapMs > MAX_OVERLAP_MS) {
    throw policyError('overlapMs', `an integer from 0 to ${MAX_OVERLAP_MS}`, overlapMs);
  }
  if (rotationId !== undefined) checkId('id', rotationId);
  const key = newApiKey(id);
  const hash = hashApiKey(key);
  const rotateFrom = (version: number): Promise<RotateKeyResult> =>
    store.rotateKey({ account, key: id, hash, version, overlapMs });
  const rotated = await changeKey(reference, async (status) => {
    const known = rotationId === undefined ? undefined : rotationOf(status);
    if (rotationId === undefined || known?.id === rotationId) {
      if (known && known.overlapMs !== overlapMs)
        throw new ApiKeyConflictError('rotation_differs', account, id);
      if (known && known.version !== status.version)
        throw new ApiKeyConflictError('already_rotated', account, id);
      return rotateFrom(status.version);
    }
    // Stores the rotation id first, with the version to rotate from: a retry can see whether the rotation was done.
    const { version } = status;
    const rotation = { id: rotationId, overlapMs, version: version + 1 };
    const noted = await store.updateKey({
      account,
      key: id,
      version,
      ...termsOf(policyOfTerms(status), rotation),
      ...pausedTerm(status),
    });
    return noted.code === 'ok' ? rotateFrom(noted.version) : noted;
  });
  if (rotated?.result.code === 'revoked') throw new ApiKeyConflictError('key_revoked', account, id);
  return rotated && { key, ...rotated.info };
}

/** Changes a key from its current version, and retries if it was modified concurrently; undefined if there is no such key. */
async function changeKey<Result extends { readonly code: string }>(
  { store, cache, account, id }: KeyReference,
  change: (status: KeyStatus) => Promise<Result>,
): Promise<{ readonly result: Result; readonly info: ApiKeyInfo } | undefined> {
  for (let attempts = 0; attempts < MAX_ATTEMPTS; attempts++) {
    const status = await store.keyState(account, id);
    if (!status) return undefined;
    const result = await change(status);
    cache.invalidate(account, id);
    if (result.code === 'changed') continue;
    const changed = await store.keyState(account, id);
    return changed && { result, info: toKeyInfo(changed, changed.now) };
  }
  throw new ApiKeyConflictError('key_changing', account, id);
}

/** The stored rotation id, for an update: a rotation that isn't done yet must start from the version after the update. */
function carriedRotation(record: KeyRecord): Rotation | undefined {
  const rotation = rotationOf(record);
  if (rotation?.version !== record.version) return rotation;
  return { ...rotation, version: record.version + 1 };
}

function isKeyId(id: unknown): boolean {
  return typeof id === 'string' && /^[\w-]{1,64}$/.test(id);
}

function checkId(field: string, id: string): void {
  if (isKeyId(id)) return;
  throw policyError(field, '1 to 64 characters A-Z a-z 0-9 _ -', id);
}

function toKeyInfo(record: KeyRecord, now: number): ApiKeyInfo {
  const { key: id, account, createdAt, revokedAt, expiresAt, overlapUntil } = record;
  const isExpired = expiresAt !== undefined && now >= expiresAt;
  return {
    id,
    account,
    ...policyOfTerms(record),
    state: record.state !== 'revoked' && isExpired ? 'expired' : record.state,
    createdAt: new Date(createdAt),
    ...(revokedAt !== undefined && { revokedAt: new Date(revokedAt) }),
    ...(overlapUntil !== undefined && { overlapUntil: new Date(overlapUntil) }),
  };
}
