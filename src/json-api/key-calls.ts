import { isDeepStrictEqual } from 'node:util';

import type { ApiKeyInfo, ApiKeys, CreatedApiKey } from '../keys/api-keys.ts';
import type { KeyPolicy } from '../keys/key-policy.ts';
import { policyOfTerms, termsOf } from '../keys/key-terms.ts';
import { capitalize, ConflictError, keyNotFound } from './errors.ts';
import { keyIdOf, rotationIdOf } from './idempotency.ts';
import { keyAnswer } from './key-schemas.ts';

/** Changes of API keys that can be repeated. */

export interface MadeKey {
  readonly info: ApiKeyInfo;
  /** The secret; undefined for a duplicate. */
  readonly key?: string;
  /** An earlier request made it. */
  readonly duplicate: boolean;
}

/**
 * Creates a key; with an id or an Idempotency-Key, once.
 *
 * @throws {ConflictError} if the existing key differs from the requested one
 */
export async function createKeyOnce(
  keys: ApiKeys,
  account: string,
  { own, idempotencyKey }: { readonly own?: string | undefined; readonly idempotencyKey: string | undefined },
  policy: KeyPolicy,
  recreate?: boolean,
): Promise<MadeKey> {
  const { id, isDerived } = keyIdOf(account, own, idempotencyKey);
  const known = id === undefined ? undefined : await keys.get(account, id);
  if (known) return repeatedCreation(known, policy, isDerived);
  try {
    const created = await keys.create({
      account,
      ...(id !== undefined && { id }),
      ...policy,
      ...(recreate !== undefined && { recreate }),
    });
    return madeKey(created);
  } catch (error) {
    // A concurrent request created the same key.
    const made = isConflict(error, 'key_exists') && id !== undefined && (await keys.get(account, id));
    if (made) return repeatedCreation(made, policy, isDerived);
    throw error;
  }
}

/**
 * Replaces the secret of a key; with an Idempotency-Key, once.
 *
 * @throws {NotFoundError} if there is no such key; {ConflictError} naming why it can't be rotated
 */
export async function rotateKeyOnce(
  keys: ApiKeys,
  account: string,
  id: string,
  { overlapMs, idempotencyKey }: { readonly overlapMs: number; readonly idempotencyKey: string | undefined },
): Promise<MadeKey> {
  try {
    const rotationId = idempotencyKey === undefined ? {} : { id: rotationIdOf(idempotencyKey) };
    const rotated = await withConflictErrors(keys.rotate(account, id, { overlapMs, ...rotationId }));
    if (rotated) return madeKey(rotated);
  } catch (error) {
    if (!isConflict(error, 'already_rotated')) throw error;
    const known = await keys.get(account, id);
    if (known) return { info: known, duplicate: true };
  }
  throw keyNotFound(account, id);
}

function madeKey(created: CreatedApiKey): MadeKey {
  return { info: created, key: created.key, duplicate: false };
}

function repeatedCreation(known: ApiKeyInfo, policy: KeyPolicy, isDerived: boolean): MadeKey {
  const { id, account } = known;
  // As stored: amounts are written in one form.
  const stored = policyOfTerms({ limits: {}, ...termsOf(policy) });
  const wanted = keyAnswer({
    ...stored,
    id,
    account,
    state: known.state,
    createdAt: known.createdAt,
    ...(known.revokedAt && { revokedAt: known.revokedAt }),
    ...(known.overlapUntil && { overlapUntil: known.overlapUntil }),
  });
  if (isDeepStrictEqual(keyAnswer(known), wanted)) return { info: known, duplicate: true };
  throw isDerived
    ? new ConflictError(
        'idempotency_key_reused',
        `This Idempotency-Key created key ${id}, from another body, or the key was changed since. Nothing was changed.`,
      )
    : new ConflictError('id_already_used', `Account ${account} has another key ${id}.`, 'id');
}

/** @throws {ConflictError} naming why the key, or the account's policy, can't be changed */
export async function withConflictErrors<Change>(change: Promise<Change>): Promise<Change> {
  return await change.catch((error: unknown) => {
    if (isConflict(error, 'key_revoked'))
      throw new ConflictError('key_revoked', `${capitalize(error.message)}.`);
    if (isConflict(error, 'key_ambiguous'))
      throw new ConflictError('key_ambiguous', `${capitalize(error.message)}.`, 'key');
    if (isConflict(error, 'rotation_differs')) {
      throw new ConflictError('idempotency_key_reused', `${capitalize(error.message)}. Nothing was changed.`);
    }
    if (isConflict(error, 'key_changing'))
      throw new ConflictError('key_changing', `${capitalize(error.message)}.`);
    throw error;
  });
}

/** Compares names, not classes: bundlers duplicate a class for a second entry point. */
function isConflict(error: unknown, code: string): error is Error {
  return (
    error instanceof Error && error.name === 'ApiKeyConflictError' && Reflect.get(error, 'code') === code
  );
}
