import { expect, it } from 'vitest';

import { endpoints } from '../../../src/account/endpoints.ts';
import { BY_COOKIE, bearer, COOKIE, startAccount } from '../../helpers/account.ts';
import { QUESTION } from '../../helpers/gateway.ts';
import { type OpenApiDocument, problems, resolve } from '../../helpers/openapi.ts';

it('describes what the account API answers, to the last member', async () => {
  const { ask, gateway, baseURL } = await startAccount({ whoIs: BY_COOKIE }, { dimensions: { user: true } });
  const document: OpenApiDocument = (await ask('GET', '/openapi.json')).body;
  const seen = new Set<string>();
  const check = async (
    method: string,
    path: string,
    url = path,
    body?: unknown,
    headers: Record<string, string> = bearer(gateway.key),
  ) => {
    const asked = await ask(method, url, body, headers);
    const response = document.paths[path]?.[method.toLowerCase()]?.responses[asked.status];
    const described = response?.$ref ? (resolve(document, response.$ref) as typeof response) : response;
    const schema = described?.content?.['application/json']?.schema;
    expect(schema, `${method} ${path} ${asked.status}`).toBeDefined();
    expect(
      problems(document, schema!, asked.body),
      `${method} ${url}: ${JSON.stringify(asked.body)}`,
    ).toEqual([]);
    seen.add(`${method} ${path}`);
    return asked.body;
  };
  const { router } = gateway;
  await router.credits.allow('acct', { id: 'pro', amount: '3.00', per: 'month' });
  await router.accounts.update('acct', {
    budget: [
      { amount: '9.00', per: 'day' },
      { amount: '90.00', per: 'month' },
    ],
    tokensPerMinute: 1_000_000,
  });
  const settled = gateway.nextSettled();
  const answer = await gateway.post({ ...QUESTION, user: 'pupil-7' });
  await answer.text();
  await settled;
  const month = new Date().toISOString().slice(0, 7);
  await check('GET', '/me');
  await check('GET', '/me', '/me', undefined, COOKIE);
  await check('GET', '/credits');
  await check('GET', '/models');
  await check('GET', '/usage', '/usage?group_by=day,key,model');
  await check('GET', '/usage', '/usage?group_by=user');
  await check('GET', '/usage', '/usage?group_by=provider');
  await check('GET', '/requests');
  await check('GET', '/requests/{request}', `/requests/${answer.headers.get('x-request-id')}`);
  await check('GET', '/requests/{request}', `/requests/${'0'.repeat(19)}`);
  await check('GET', '/statements/{month}', `/statements/${month}`);
  const policy = {
    name: 'all',
    models: ['acme/*'],
    budget: { amount: '1.00', per: 'day' },
    requests_per_minute: 5,
    tokens_per_minute: 50_000,
    concurrent_requests: 2,
    end_users: { requests_per_minute: 1 },
    expires_at: '2099-01-01T00:00:00Z',
  };
  const { id } = await check('POST', '/keys', '/keys', policy);
  await check('GET', '/keys');
  await check('GET', '/keys/{id}', `/keys/${id}`);
  await check('PATCH', '/keys/{id}', `/keys/${id}`, { models: null });
  await check('POST', '/keys/{id}/pause', `/keys/${id}/pause`, {});
  await check('POST', '/keys/{id}/resume', `/keys/${id}/resume`, {});
  await check('POST', '/keys/{id}/rotate', `/keys/${id}/rotate`, { overlap_ms: 60_000 });
  await check('DELETE', '/keys/{id}', `/keys/${id}`);
  const { origin } = new URL(baseURL);
  await check('POST', '/playground', '/playground', {}, { ...COOKIE, origin });
  expect(seen).toEqual(new Set(endpoints.map(({ method, path }) => `${method} ${path}`)));
});
