import { isDeepStrictEqual } from 'node:util';

import { InvalidValueError, keyNotFound } from '../json-api/errors.ts';
import { keyIdOf } from '../json-api/idempotency.ts';
import { snakeCase } from '../json-api/in-json.ts';
import { createKeyOnce, type MadeKey, rotateKeyOnce, withConflictErrors } from '../json-api/key-calls.ts';
import {
  createdCustomerKey,
  newCustomerKey,
  noTerms,
  OWN_FIELDS,
  customerKey,
  customerKeyAnswer,
  customerKeyChange,
  customerKeyDetails,
  customerKeyDetailsAnswer,
  customerKeys,
  type PolicyChange,
  policyOfBody,
  rotation,
} from '../json-api/key-schemas.ts';
import { keyId, object } from '../json-api/schema.ts';
import type { ApiKeyDetails, ApiKeyInfo } from '../keys/api-keys.ts';
import { isManaged, MANAGED_BY } from '../keys/key-policy.ts';
import { SESSION_PREFIX } from '../ledger/contract/reserved-ids.ts';
import { type Endpoint, endpoint, list, nothing } from './endpoint.ts';
import { KeyNotManagedError, TooManyKeysError } from './errors.ts';
import type { Holder } from './holder.ts';
import type { AccountServices, HeldRouter } from './options.ts';

const ofKey = object({ id: keyId });

export const keyEndpoints: readonly Endpoint[] = [
  endpoint({
    operation: 'listKeys',
    method: 'GET',
    path: '/keys',
    summary: 'List the API keys of the account',
    params: nothing,
    query: nothing,
    body: nothing,
    answer: customerKeys,
    run: async ({ caller }, { router }) => ({
      answer: list((await keysOf(router, caller)).map(customerKeyAnswer)),
    }),
  }),
  endpoint({
    operation: 'createKey',
    method: 'POST',
    path: '/keys',
    summary: 'Create an API key, and show it once',
    params: nothing,
    query: nothing,
    body: newCustomerKey,
    bodyIsOptional: true,
    answer: createdCustomerKey,
    status: 201,
    errorStatuses: [409],
    change: {
      action: 'keys.create',
      needs: 'keys',
      repeat:
        '200 with duplicate: true and without the secret, which is shown only once; with another body, or if the key was changed since, 409 idempotency_key_reused.',
    },
    async run({ body, idempotencyKey, caller }, services) {
      const { router, newKeys, creations } = services;
      const { account, name } = caller;
      checkChosen(body, services);
      const metadata = { ...newKeys.metadata, ...MANAGED_BY, made_by: name };
      const policy = { ...policyOfBody(body), ...newKeys, metadata };
      const made = await creations.take(account, async () => {
        await checkRoom(services, caller, keyIdOf(account, undefined, idempotencyKey).id);
        return await createKeyOnce(router.keys, account, { idempotencyKey }, policy);
      });
      return createdAnswer(made);
    },
  }),
  endpoint({
    operation: 'getKey',
    method: 'GET',
    path: '/keys/{id}',
    summary: 'Get the limits of an API key, and what is left of them',
    params: ofKey,
    query: nothing,
    body: nothing,
    answer: customerKeyDetails,
    errorStatuses: [404],
    run: async ({ params: { id }, caller }, { router }) => ({
      answer: customerKeyDetailsAnswer(await findKey(router, caller, id)),
    }),
  }),
  endpoint({
    operation: 'updateKey',
    method: 'PATCH',
    path: '/keys/{id}',
    summary: 'Change the limits of an API key that the customer made',
    params: ofKey,
    query: nothing,
    body: customerKeyChange,
    answer: customerKey,
    errorStatuses: [404, 409],
    change: {
      action: 'keys.update',
      needs: 'keys',
      repeat: 'the same answer: the key is as the request says.',
    },
    async run({ params: { id }, body, caller }, services) {
      const { keys } = services.router;
      checkChosen(body, services);
      const before = await findManaged(services.router, caller, id);
      const changed = await withConflictErrors(keys.update(caller.account, id, policyOfBody(body)));
      return changedAnswer(caller, before, changed);
    },
  }),
  endpoint({
    operation: 'revokeKey',
    method: 'DELETE',
    path: '/keys/{id}',
    summary: 'Revoke an API key permanently',
    params: ofKey,
    query: nothing,
    body: nothing,
    answer: customerKey,
    errorStatuses: [404],
    change: { action: 'keys.revoke', needs: 'keys', repeat: 'the same answer: the key is revoked.' },
    async run({ params: { id }, caller }, { router }) {
      const before = await findKey(router, caller, id);
      await router.keys.revoke(caller.account, id);
      return changedAnswer(caller, before, await router.keys.get(caller.account, id));
    },
  }),
  ...[true, false].map((paused) =>
    endpoint({
      operation: paused ? 'pauseKey' : 'resumeKey',
      method: 'POST',
      path: `/keys/{id}/${paused ? 'pause' : 'resume'}`,
      summary: paused
        ? 'Reject an API key that the customer made until it is resumed'
        : 'Accept a paused API key again, if the customer made it',
      params: ofKey,
      query: nothing,
      body: noTerms,
      bodyIsOptional: true,
      answer: customerKey,
      errorStatuses: [404, 409],
      change: {
        action: paused ? 'keys.pause' : 'keys.resume',
        needs: 'keys',
        repeat: `the same answer: the key is ${paused ? 'paused' : 'not paused'}.`,
      },
      async run({ params: { id }, caller }, { router }) {
        const { account } = caller;
        const before = await findManaged(router, caller, id);
        const change = paused ? router.keys.pause(account, id) : router.keys.resume(account, id);
        return changedAnswer(caller, before, await withConflictErrors(change));
      },
    }),
  ),
  endpoint({
    operation: 'rotateKey',
    method: 'POST',
    path: '/keys/{id}/rotate',
    summary: 'Replace the secret of an API key, and show it once',
    params: ofKey,
    query: nothing,
    body: rotation,
    bodyIsOptional: true,
    answer: createdCustomerKey,
    errorStatuses: [404, 409],
    change: {
      action: 'keys.rotate',
      needs: 'keys',
      repeat:
        'with duplicate: true and without the secret, which is shown only once, unless there was another rotation since; with another overlap_ms 409 idempotency_key_reused.',
    },
    async run({ params: { id }, body: { overlap_ms: overlapMs = 0 }, idempotencyKey, caller }, { router }) {
      await findKey(router, caller, id);
      return createdAnswer(
        await rotateKeyOnce(router.keys, caller.account, id, { overlapMs, idempotencyKey }),
      );
    },
  }),
];

/** Without those of sessions, which pages hold for minutes. */
async function keysOf({ keys }: HeldRouter, { account, onlyKey }: Holder): Promise<readonly ApiKeyInfo[]> {
  const all = await keys.list(account);
  return all.filter(({ id }) => (onlyKey === undefined ? !id.startsWith(SESSION_PREFIX) : id === onlyKey));
}

/** @throws {NotFoundError} */
async function findKey(
  { keys }: HeldRouter,
  { account, onlyKey }: Holder,
  id: string,
): Promise<ApiKeyDetails> {
  const isOwn = onlyKey === undefined ? !id.startsWith(SESSION_PREFIX) : id === onlyKey;
  const found = isOwn ? await keys.get(account, id) : undefined;
  if (!found) throw keyNotFound(account, id);
  return found;
}

/** @throws {KeyNotManagedError} for a key of the operator's: the customer can't lift its limits, or resume it */
async function findManaged(router: HeldRouter, caller: Holder, id: string): Promise<ApiKeyDetails> {
  const found = await findKey(router, caller, id);
  if (isManaged(found)) return found;
  throw new KeyNotManagedError(id);
}

/** @throws {InvalidValueError} naming what `newKeys` decides */
function checkChosen(body: PolicyChange, { newKeys }: AccountServices): void {
  const fixed = OWN_FIELDS.find(
    (field) => newKeys[field] !== undefined && Reflect.get(body, snakeCase(field)) !== undefined,
  );
  if (fixed === undefined) return;
  const name = snakeCase(fixed);
  throw new InvalidValueError(`${name} is the same for all keys of this site, and can't be chosen.`, name);
}

/**
 * @param id - of the key to create, if it is known: a repeated creation needs no room
 * @throws {TooManyKeysError}
 */
async function checkRoom(
  { router, maxKeys }: AccountServices,
  caller: Holder,
  id: string | undefined,
): Promise<void> {
  const all = await keysOf(router, caller);
  if (all.some((key) => key.id === id)) return;
  const usable = all.filter(({ state }) => state !== 'revoked').length;
  if (usable < maxKeys && all.length < maxKeys * 10) return;
  throw new TooManyKeysError(usable, all.length, maxKeys);
}

function changedAnswer({ account }: Holder, before: ApiKeyInfo, changed: ApiKeyInfo | undefined) {
  if (!changed) throw keyNotFound(account, before.id);
  const [answer, was] = [customerKeyAnswer(changed), customerKeyAnswer(before)];
  return { answer, target: before.id, before: was, after: answer, repeated: isDeepStrictEqual(was, answer) };
}

function createdAnswer({ info, key, duplicate }: MadeKey) {
  const after = customerKeyAnswer(info);
  return {
    answer: { ...after, ...(key !== undefined && { key }), duplicate },
    target: info.id,
    ...(duplicate ? { repeated: true } : { after }),
  };
}
