import { isDeepStrictEqual } from 'node:util';

import { type Endpoint, endpoint, list, nothing, type OperationResult } from './endpoint.ts';
import { accountNotFound, keyNotFound, noSuchKey } from '../json-api/errors.ts';
import { accountId, keyId, object } from '../json-api/schema.ts';
import { createKeyOnce, type MadeKey, rotateKeyOnce, withConflictErrors } from '../json-api/key-calls.ts';
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
  policyOfBody,
  rotation,
} from '../json-api/key-schemas.ts';
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
      const made = await createKeyOnce(keys, account, { own, idempotencyKey }, policyOfBody(asked), recreate);
      return createdAnswer(made);
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
    change: {
      action: 'keys.find',
      needs: 'read',
      secret: 'key',
      repeat: 'the same answer: nothing is changed.',
    },
    async run({ body: { key } }, { keys }) {
      const found = await keys.find(key);
      // Those of several accounts have the same ID.
      const [first] = found;
      return { answer: list(found.map(keyAnswer)), ...(first && { target: first.id }) };
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
    change: {
      action: 'keys.revoke',
      needs: 'keys',
      secret: 'key',
      repeat: 'the same answer: the key is revoked.',
    },
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
      const rotated = await rotateKeyOnce(router.keys, account, id, { overlapMs, idempotencyKey });
      return { ...createdAnswer(rotated), ...(!rotated.duplicate && { before }) };
    },
  }),
];

function createdAnswer({ info, key, duplicate }: MadeKey): OperationResult<CreatedKeyAnswer> {
  const after = keyAnswer(info);
  return {
    answer: { ...after, ...(key !== undefined && { key }), duplicate },
    target: info.id,
    ...(duplicate ? { repeated: true } : { after }),
  };
}

async function getKeyAnswer({ keys }: AdministeredRouter, account: string, id: string): Promise<KeyAnswer> {
  const found = await keys.get(account, id);
  if (!found) throw keyNotFound(account, id);
  return keyAnswer(found);
}
