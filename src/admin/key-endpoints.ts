import { isDeepStrictEqual } from 'node:util';

import type { ApiKeyInfo } from '../keys/api-keys.ts';
import { policyOfTerms, termsOf } from '../keys/key-terms.ts';
import { type Endpoint, endpoint, list, nothing, type OperationResult } from './endpoint.ts';
import { accountNotFound, capitalize, ConflictError, keyNotFound, noSuchKey } from '../json-api/errors.ts';
import { accountId, keyId, object } from '../json-api/schema.ts';
import { keyIdOf, rotationIdOf } from '../json-api/idempotency.ts';
import {
  apiKey,
  apiKeyChange,
  apiKeyDetails,
  apiKeys,
  type CreatedKeyAnswer,
  createdApiKey,
  type KeyAnswer,
  keyAnswer,
  keyDetailsAnswer,
  keySearch,
  newApiKey,
  noTerms,
  type PolicyBody,
  policyOfBody,
  rotation,
} from './key-schemas.ts';
import type { AdministeredRouter } from './options.ts';

const ofAccount = object({ account: accountId });
const ofKey = object({ account: accountId, id: keyId });

export const keyEndpoints: readonly Endpoint[] = [
  endpoint({
    operation: 'listKeys',
    method: 'GET',
    path: '/accounts/{account}/keys',
    summary: 'List the API keys of an account',
    params: ofAccount,
    query: nothing,
    body: nothing,
    answer: apiKeys,
    errorStatuses: [404],
    async run({ params: { account } }, { accounts, keys }) {
      const found = await keys.list(account);
      if (found.length === 0 && !(await accounts.get(account))) throw accountNotFound(account);
      return { answer: list(found.map(keyAnswer)) };
    },
  }),
  endpoint({
    operation: 'createKey',
    method: 'POST',
    path: '/accounts/{account}/keys',
    summary: 'Create an API key, and show it once',
    params: ofAccount,
    query: nothing,
    body: newApiKey,
    bodyIsOptional: true,
    answer: createdApiKey,
    status: 201,
    errorStatuses: [409],
    change: {
      action: 'keys.create',
      needs: 'keys',
      repeat:
        '200 with duplicate: true and without the secret, which is shown only once; with another body, or if the key was changed since, 409 idempotency_key_reused (id_already_used, if the body has an id).',
    },
    async run({ params: { account }, body: { id: own, recreate, ...asked }, idempotencyKey }, { keys }) {
      const { id, isDerived } = keyIdOf(account, own, idempotencyKey);
      const known = id === undefined ? undefined : await keys.get(account, id);
      if (known) return repeatedCreation(known, asked, isDerived);
      try {
        const created = await keys.create({
          account,
          ...(id !== undefined && { id }),
          ...policyOfBody(asked),
          ...(recreate !== undefined && { recreate }),
        });
        const after = keyAnswer(created);
        return { answer: { ...after, key: created.key, duplicate: false }, target: created.id, after };
      } catch (error) {
        // A concurrent request created the same key.
        const made = isConflict(error, 'key_exists') && id !== undefined && (await keys.get(account, id));
        if (made) return repeatedCreation(made, asked, isDerived);
        throw error;
      }
    },
  }),
  endpoint({
    operation: 'getKey',
    method: 'GET',
    path: '/accounts/{account}/keys/{id}',
    summary: 'Get the policy and counters of an API key',
    params: ofKey,
    query: nothing,
    body: nothing,
    answer: apiKeyDetails,
    errorStatuses: [404],
    async run({ params: { account, id } }, { keys }) {
      const found = await keys.get(account, id);
      if (!found) throw keyNotFound(account, id);
      return { answer: keyDetailsAnswer(found) };
    },
  }),
  endpoint({
    operation: 'updateKey',
    method: 'PATCH',
    path: '/accounts/{account}/keys/{id}',
    summary: 'Change the policy of an API key',
    params: ofKey,
    query: nothing,
    body: apiKeyChange,
    answer: apiKey,
    errorStatuses: [404, 409],
    change: {
      action: 'keys.update',
      needs: 'keys',
      repeat: 'the same answer: the key is as the request says.',
    },
    async run({ params: { account, id }, body }, router) {
      const before = await getKeyAnswer(router, account, id);
      const changed = await withConflictErrors(router.keys.update(account, id, policyOfBody(body)));
      if (!changed) throw keyNotFound(account, id);
      const answer = keyAnswer(changed);
      return { answer, target: id, before, after: answer, repeated: isDeepStrictEqual(before, answer) };
    },
  }),
  endpoint({
    operation: 'revokeKey',
    method: 'DELETE',
    path: '/accounts/{account}/keys/{id}',
    summary: 'Revoke an API key permanently',
    params: ofKey,
    query: nothing,
    body: nothing,
    answer: apiKey,
    errorStatuses: [404],
    change: { action: 'keys.revoke', needs: 'keys', repeat: 'the same answer: the key is revoked.' },
    async run({ params: { account, id } }, router) {
      const before = await getKeyAnswer(router, account, id);
      if (!(await router.keys.revoke(account, id))) throw keyNotFound(account, id);
      const answer = await getKeyAnswer(router, account, id);
      return { answer, target: id, before, after: answer, repeated: before.state === 'revoked' };
    },
  }),
  ...[true, false].map((paused) =>
    endpoint({
      operation: paused ? 'pauseKey' : 'resumeKey',
      method: 'POST',
      path: `/accounts/{account}/keys/{id}/${paused ? 'pause' : 'resume'}`,
      summary: paused ? 'Reject an API key until it is resumed' : 'Accept a paused API key again',
      params: ofKey,
      query: nothing,
      body: noTerms,
      bodyIsOptional: true,
      answer: apiKey,
      errorStatuses: [404, 409],
      change: {
        action: paused ? 'keys.pause' : 'keys.resume',
        needs: 'keys',
        repeat: `the same answer: the key is ${paused ? 'paused' : 'not paused'}.`,
      },
      async run({ params: { account, id } }, router) {
        const before = await getKeyAnswer(router, account, id);
        const change = paused ? router.keys.pause(account, id) : router.keys.resume(account, id);
        const changed = await withConflictErrors(change);
        if (!changed) throw keyNotFound(account, id);
        const answer = keyAnswer(changed);
        return { answer, target: id, before, after: answer, repeated: isDeepStrictEqual(before, answer) };
      },
    }),
  ),
  endpoint({
    operation: 'findKey',
    method: 'POST',
    path: '/keys/find',
    summary: 'Find the API keys that have a secret or an id',
    params: nothing,
    query: nothing,
    body: keySearch,
    answer: apiKeys,
    change: { action: 'keys.find', needs: 'read', repeat: 'the same answer: nothing is changed.' },
    async run({ body: { key } }, { keys }) {
      return { answer: list((await keys.find(key)).map(keyAnswer)) };
    },
  }),
  endpoint({
    operation: 'revokeFoundKey',
    method: 'POST',
    path: '/keys/revoke',
    summary: 'Revoke the only API key that has a secret or an id',
    params: nothing,
    query: nothing,
    body: keySearch,
    answer: apiKey,
    errorStatuses: [404, 409],
    change: { action: 'keys.revoke', needs: 'keys', repeat: 'the same answer: the key is revoked.' },
    async run({ body: { key } }, { keys }) {
      const [before] = await keys.find(key);
      const revoked = await withConflictErrors(keys.revokeFound(key));
      if (!revoked) throw noSuchKey();
      const answer = keyAnswer(revoked);
      const repeated = before?.state === 'revoked';
      return {
        answer,
        account: revoked.account,
        target: revoked.id,
        after: answer,
        repeated,
        ...(before && { before: keyAnswer(before) }),
      };
    },
  }),
  endpoint({
    operation: 'rotateKey',
    method: 'POST',
    path: '/accounts/{account}/keys/{id}/rotate',
    summary: 'Replace the secret of an API key, and show it once',
    params: ofKey,
    query: nothing,
    body: rotation,
    bodyIsOptional: true,
    answer: createdApiKey,
    errorStatuses: [404, 409],
    change: {
      action: 'keys.rotate',
      needs: 'keys',
      repeat:
        'with duplicate: true and without the secret, which is shown only once, unless there was another rotation since; with another overlap_ms 409 idempotency_key_reused.',
    },
    async run({ params: { account, id }, body: { overlap_ms: overlapMs = 0 }, idempotencyKey }, router) {
      const before = await getKeyAnswer(router, account, id);
      try {
        const rotated = await withConflictErrors(
          router.keys.rotate(account, id, {
            overlapMs,
            ...(idempotencyKey !== undefined && { id: rotationIdOf(idempotencyKey) }),
          }),
        );
        if (!rotated) throw keyNotFound(account, id);
        const after = keyAnswer(rotated);
        return { answer: { ...after, key: rotated.key, duplicate: false }, target: id, before, after };
      } catch (error) {
        if (!isConflict(error, 'already_rotated')) throw error;
        const there = await getKeyAnswer(router, account, id);
        return { answer: { ...there, duplicate: true }, target: id, repeated: true };
      }
    },
  }),
];

async function getKeyAnswer({ keys }: AdministeredRouter, account: string, id: string): Promise<KeyAnswer> {
  const found = await keys.get(account, id);
  if (!found) throw keyNotFound(account, id);
  return keyAnswer(found);
}

/** @throws {ConflictError} if the existing key differs from the requested one */
function repeatedCreation(
  known: ApiKeyInfo,
  asked: PolicyBody,
  isDerived: boolean,
): OperationResult<CreatedKeyAnswer> {
  const { id, account } = known;
  // As stored: amounts are written in one form.
  const policy = policyOfTerms({ limits: {}, ...termsOf(policyOfBody(asked)) });
  const wanted = keyAnswer({
    ...policy,
    id,
    account,
    state: known.state,
    createdAt: known.createdAt,
    ...(known.revokedAt && { revokedAt: known.revokedAt }),
    ...(known.overlapUntil && { overlapUntil: known.overlapUntil }),
  });
  const there = keyAnswer(known);
  if (!isDeepStrictEqual(there, wanted)) {
    throw isDerived
      ? new ConflictError(
          'idempotency_key_reused',
          `This Idempotency-Key created key ${id}, from another body, or the key was changed since. Nothing was changed.`,
        )
      : new ConflictError('id_already_used', `Account ${account} has another key ${id}.`, 'id');
  }
  return { answer: { ...there, duplicate: true }, target: id, repeated: true };
}

/** @throws {ConflictError} naming why the key can't be changed */
async function withConflictErrors<Change>(change: Promise<Change>): Promise<Change> {
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
