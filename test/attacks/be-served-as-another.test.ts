import type { IncomingHttpHeaders } from 'node:http';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Authenticator } from '../../src/keys/authenticator.ts';
import { type Authenticate, type AuthenticateRequest, MemoryStore } from '../../src/index.ts';
import { QUESTION, startGateway } from '../helpers/gateway.ts';

/** All of an app's requests carry one key; whose they are stands in a header. */
const SHARED = { authorization: 'Bearer key-of-the-app' };
const as = (tenant: string): IncomingHttpHeaders => ({ ...SHARED, 'x-tenant': tenant });

function authenticatorOf(
  authenticate: Authenticate,
  cacheKey?: (request: AuthenticateRequest) => string,
): Authenticator {
  return new Authenticator({
    store: new MemoryStore(),
    authenticate,
    cacheKey,
    keyCacheMs: 30_000,
    now: Date.now,
  });
}

async function outcome(
  asked: { readonly account: string } | Promise<{ readonly account: string }>,
): Promise<string> {
  return Promise.resolve(asked).then(
    ({ account }) => account,
    (error: unknown) => String(Reflect.get(Object(error), 'code')),
  );
}

describe('an authenticate that reads headers, without a cacheKey', () => {
  const byHeader: Authenticate = (_key, { headers }) => {
    const tenant = headers['x-tenant'];
    return tenant === 'unknown' ? undefined : { account: String(tenant) };
  };

  it('is asked for each request: no answer is another’s', async () => {
    const authenticator = authenticatorOf(byHeader);
    const served: string[] = [];
    for (const tenant of ['ann', 'bob', 'unknown', 'ann', 'bob']) {
      served.push(await outcome(authenticator.authenticate(as(tenant))));
    }
    expect(served).toEqual(['ann', 'bob', 'invalid_api_key', 'ann', 'bob']);
  });

  it('gives none of those who ask at once the answer of another, and no refusal', async () => {
    let open = (): void => {};
    const gate = new Promise<void>((resolve) => (open = resolve));
    const authenticator = authenticatorOf(async (key, request) => {
      await gate;
      if (request.headers['x-tenant'] === 'broken') throw new Error('no such row');
      return byHeader(key, request);
    });
    const tenants = ['unknown', 'ann', 'broken', 'bob', 'ann'];
    const asked = tenants.map((tenant) => outcome(authenticator.authenticate(as(tenant))));
    open();
    expect(await Promise.all(asked)).toEqual([
      'invalid_api_key',
      'ann',
      'authentication_unavailable',
      'bob',
      'ann',
    ]);
  });

  it('is remembered for what it says of a key alone', async () => {
    let asked = 0;
    const authenticator = authenticatorOf((apiKey, request) => {
      asked += 1;
      return apiKey === 'key-of-the-app' ? byHeader(apiKey, request) : { account: 'own' };
    });
    const headers = { authorization: 'Bearer key-of-its-own' };
    for (let i = 0; i < 3; i++) await authenticator.authenticate(headers);
    expect(asked).toBe(1);
    for (const tenant of ['ann', 'bob']) await authenticator.authenticate(as(tenant));
    expect(asked).toBe(3);
  });

  it('is remembered by its cacheKey, where it has one', async () => {
    let asked = 0;
    const authenticator = authenticatorOf(
      (key, request) => {
        asked += 1;
        return byHeader(key, request);
      },
      ({ headers }) => String(headers['x-tenant']),
    );
    for (const tenant of ['ann', 'bob', 'ann', 'bob']) {
      expect(await outcome(authenticator.authenticate(as(tenant)))).toBe(tenant);
    }
    expect(asked).toBe(2);
  });

  it.each([undefined, null, 7, {}])('is not asked where cacheKey returns %s', async (key) => {
    const authenticator = authenticatorOf(byHeader, () => key as string);
    expect(await outcome(authenticator.authenticate(as('ann')))).toBe('authentication_unavailable');
  });
});

describe('what authenticate returns', () => {
  it.each<[string, unknown, string]>([
    ['a number for an account', { account: 7 }, 'account must be 1 to 128 visible ASCII characters'],
    ['a list for an account', { account: ['ann'] }, 'account must be 1 to 128 visible ASCII characters'],
    [
      'an account of 129 characters',
      { account: 'a'.repeat(129) },
      'account must be 1 to 128 visible ASCII characters',
    ],
    ['a name with blanks', { account: 'ann example' }, 'account must be 1 to 128 visible ASCII characters'],
    ['no account', {}, 'account must be 1 to 128 visible ASCII characters'],
    ['a number for a label', { account: 'ann', key: 7 }, 'key must be 1 to 64 characters'],
    ['text for models', { account: 'ann', models: '' }, 'models of authenticate must be'],
    ['no models', { account: 'ann', models: [] }, 'models of authenticate must be'],
    ['null for models', { account: 'ann', models: null }, 'models of authenticate must be'],
    ['a number for a markup', { account: 'ann', markup: { factor: 2 } }, 'markup of authenticate'],
    ['a markup below nothing', { account: 'ann', markup: { fee: '-1' } }, 'markup of authenticate.fee'],
    ['text for its keys', { account: 'ann', upstreamKeys: 'sk-1' }, 'upstreamKeys of authenticate must be'],
    ['a member that there is none of', { account: 'ann', model: ['a/*'] }, 'returned "model"; it takes'],
    ['an account alone', 'ann', 'must return an object or undefined, got string'],
    ['yes', true, 'must return an object or undefined, got boolean'],
  ])('is checked as the admin API checks its input: %s', async (_what, answer, message) => {
    const gateway = await startGateway({ authenticate: (() => answer) as unknown as Authenticate });
    const response = await gateway.post(QUESTION);
    expect([response.status, response.headers.get('x-should-retry')]).toEqual([503, 'true']);
    expect(await response.json()).toMatchObject({ error: { code: 'authentication_unavailable' } });
    expect(gateway.errors).toHaveLength(1);
    expect(gateway.errors[0]?.cause).toMatchObject({ message: expect.stringContaining(message) });
    expect(gateway.provider.received).toHaveLength(0);
    await gateway.close();
  });
});

describe('an authenticate that throws', () => {
  const lines: unknown[][] = [];

  beforeEach(() => {
    lines.length = 0;
    vi.spyOn(console, 'error').mockImplementation((...line) => lines.push(line));
  });

  afterEach(() => vi.restoreAllMocks());

  it('is one line in the log, without a secret of the client’s or the host’s', async () => {
    const gateway = await startGateway({
      hooks: { onError: undefined as never },
      authenticate: (apiKey, { headers }) => {
        throw new Error(
          `no answer from postgres://app:hunt@er22@db/users\nfor ${apiKey} and ${headers.cookie}; sid 0123456789abcdef`,
        );
      },
    });
    const headers = { authorization: 'Bearer secret-of-ann', cookie: 'a=b; sid=0123456789abcdef' };
    const response = await gateway.post(QUESTION, { headers });
    expect(response.status).toBe(503);
    expect(await response.text()).not.toMatch(/postgres|secret-of-ann/);
    expect(lines).toHaveLength(1);
    const [line = ''] = lines.map((parts) => parts.join(' '));
    expect(line).toContain('authentication_unavailable');
    expect(line).toContain('no answer from postgres://***@db/users for *** and');
    expect(line).not.toMatch(/hunt|er22|secret-of-ann|0123456789abcdef|\n/);
    await gateway.close();
  });
});
