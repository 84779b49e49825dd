import { inspect } from 'node:util';

import { LRUCache } from 'lru-cache';
import { describe, expect, it, vi } from 'vitest';

import { createApiKeys, type KeyCache } from '../../../src/keys/api-keys.ts';
import { hashApiKey, isApiKey } from '../../../src/keys/key-secret.ts';
import { Authenticator } from '../../../src/keys/authenticator.ts';
import { type Authenticate, type FoundKey, MemoryStore } from '../../../src/index.ts';
import { QUESTION, startGateway } from '../../helpers/gateway.ts';

/** A store that counts look-ups, and can be made to hold back what it found. */
class WatchedStore extends MemoryStore {
  lookUps = 0;
  gate: Promise<void> | undefined;

  override async findKey(hash: string): Promise<FoundKey | undefined> {
    this.lookUps += 1;
    const found = await super.findKey(hash);
    await this.gate;
    return found;
  }
}

function createAuthenticator(
  store: MemoryStore,
  authenticate?: Authenticate,
  keyCacheMs = 30_000,
): Authenticator {
  return new Authenticator({ store, authenticate, cacheKey: undefined, keyCacheMs, now: Date.now });
}

/** Keys without anything that remembers them. */
const NO_CACHE: KeyCache = { invalidate: () => {}, forget: () => {} };

const bearer = (key: string): { authorization: string } => ({ authorization: `Bearer ${key}` });

describe('an API key', () => {
  it('looks like one, and is known by its checksum', async () => {
    const { key, id } = await createApiKeys(new MemoryStore(), NO_CACHE).create({ account: 'acct' });
    expect(key).toMatch(/^sk-ccr-[\dA-Za-z]{48}$/);
    expect(key).toContain(id);
    expect(isApiKey(key)).toBe(true);
    for (let i = 7; i < key.length; i++) {
      const typo = key.slice(0, i) + (key[i] === 'x' ? 'y' : 'x') + key.slice(i + 1);
      expect(isApiKey(typo), typo).toBe(false);
    }
  });

  it('is not in the store, only its hash is', async () => {
    const store = new MemoryStore();
    const { key } = await createApiKeys(store, NO_CACHE).create({ account: 'acct', name: 'prod' });
    expect(await store.findKey(hashApiKey(key))).toMatchObject({
      account: 'acct',
      name: 'prod',
      state: 'active',
    });
    expect(inspect(await store.snapshot('acct'), { depth: null })).not.toContain(key);
  });

  it('is listed without what it was made of', async () => {
    const keys = createApiKeys(new MemoryStore(), NO_CACHE);
    const { id } = await keys.create({ account: 'acct', name: 'prod' });
    await keys.revoke('acct', id);
    expect(await keys.list('acct')).toEqual([
      {
        id,
        account: 'acct',
        name: 'prod',
        state: 'revoked',
        createdAt: expect.any(Date),
        revokedAt: expect.any(Date),
      },
    ]);
  });

  it('that does not exist can not be revoked', async () => {
    expect(await createApiKeys(new MemoryStore(), NO_CACHE).revoke('acct', 'nobody')).toBe(false);
  });
});

describe('looking up a key', () => {
  it('happens once for many requests, also when they come at once', async () => {
    const store = new WatchedStore();
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    store.gate = gate;
    const { key } = await createApiKeys(store, NO_CACHE).create({ account: 'acct' });
    const authenticator = createAuthenticator(store);
    const asked = Array.from({ length: 50 }, async () => authenticator.authenticate(bearer(key)));
    open();
    await Promise.all(asked);
    await authenticator.authenticate(bearer(key));
    expect(store.lookUps).toBe(1);
  });

  it('happens again once its time is over, however much the key was used', async () => {
    const store = new WatchedStore();
    const { key } = await createApiKeys(store, NO_CACHE).create({ account: 'acct' });
    const authenticator = createAuthenticator(store, undefined, 100);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let now = performance.now();
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now);
    for (let ms = 0; ms <= 250; ms += 5) {
      await authenticator.authenticate(bearer(key));
      now += 5;
      // The cache reads the clock once a millisecond.
      vi.advanceTimersByTime(5);
    }
    clock.mockRestore();
    vi.useRealTimers();
    expect(store.lookUps).toBe(3);
  });

  it('does not bring back a key that is revoked while it runs', async () => {
    const store = new WatchedStore();
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    store.gate = gate;
    const authenticator = createAuthenticator(store);
    const keys = createApiKeys(store, authenticator);
    const { key, id } = await keys.create({ account: 'acct' });
    const lookingUp = Promise.resolve(authenticator.authenticate(bearer(key))).catch(
      (error: unknown) => error,
    );
    await keys.revoke('acct', id);
    open();
    expect(await lookingUp).toMatchObject({ code: 'revoked_api_key' });
    await expect(authenticator.authenticate(bearer(key))).rejects.toMatchObject({ code: 'revoked_api_key' });
  });

  it('never happens for what can not be a key', async () => {
    const store = new WatchedStore();
    const authenticator = createAuthenticator(store);
    for (const key of ['sk-nobody', `sk-ccr-${'x'.repeat(48)}`]) {
      await expect(authenticator.authenticate(bearer(key))).rejects.toMatchObject({
        code: 'invalid_api_key',
      });
    }
    expect(store.lookUps).toBe(0);
  });

  it.each([undefined, '', 'Basic dXNlcjpwYXNz', 'Bearer', 'Bearer ', 'Bearer a b', 'Token abc'])(
    'needs a bearer key, not %s',
    async (authorization) => {
      const headers = authorization === undefined ? {} : { authorization };
      const asked = createAuthenticator(new MemoryStore()).authenticate(headers);
      await expect(asked).rejects.toMatchObject({ code: 'missing_api_key', status: 401 });
    },
  );

  it('takes the scheme in any case', async () => {
    const store = new MemoryStore();
    const { key } = await createApiKeys(store, NO_CACHE).create({ account: 'acct' });
    const caller = await createAuthenticator(store).authenticate({ authorization: `bearer ${key}` });
    expect(caller.account).toBe('acct');
  });
});

describe('keys of the host’s own', () => {
  it('say who pays, and are labels in the journal', async () => {
    const gateway = await startGateway({
      authenticate: (apiKey) => (apiKey === 'jwt' ? { account: 'acct', key: 'session_1' } : undefined),
    });
    const settled = gateway.nextSettled();
    const response = await gateway.post(QUESTION, { headers: { authorization: 'Bearer jwt' } });
    expect(response.status).toBe(200);
    expect(await settled).toMatchObject({ account: 'acct', key: 'session_1', charged: '0.000045' });
    const stranger = await gateway.post(QUESTION, { headers: { authorization: 'Bearer other' } });
    expect(stranger.status).toBe(401);
    expect(stranger.headers.get('www-authenticate')).toBe('Bearer');
    await gateway.close();
  });

  it('are asked for once in the cache’s time, unauthenticated clients too', async () => {
    let asked = 0;
    const authenticator = createAuthenticator(new MemoryStore(), (apiKey) => {
      asked += 1;
      return apiKey === 'known' ? { account: 'acct' } : undefined;
    });
    for (let i = 0; i < 3; i++) {
      await authenticator.authenticate(bearer('known'));
      await expect(authenticator.authenticate(bearer('unknown'))).rejects.toMatchObject({ status: 401 });
    }
    expect(asked).toBe(2);
  });

  it('can be forgotten, in either direction', async () => {
    let customers = ['ann'];
    const authenticator = createAuthenticator(new MemoryStore(), (apiKey) =>
      customers.includes(apiKey) ? { account: 'acct' } : undefined,
    );
    await authenticator.authenticate(bearer('ann'));
    await expect(authenticator.authenticate(bearer('bob'))).rejects.toMatchObject({ status: 401 });
    customers = ['bob'];
    authenticator.forget('ann');
    authenticator.forget('bob');
    await expect(authenticator.authenticate(bearer('ann'))).rejects.toMatchObject({ status: 401 });
    expect(await authenticator.authenticate(bearer('bob'))).toMatchObject({ account: 'acct' });
  });

  it('are not looked up again because another one is revoked', async () => {
    let asked = 0;
    const authenticator = createAuthenticator(new MemoryStore(), async () => {
      asked += 1;
      authenticator.invalidate('other', 'key');
      await new Promise(setImmediate);
      authenticator.invalidate('other', 'key');
      return { account: 'acct' };
    });
    await authenticator.authenticate(bearer('ann'));
    expect(asked).toBe(1);
  });

  it('that throw are a 503 to ask again, told to the host and not to the client', async () => {
    const gateway = await startGateway({
      authenticate: () => {
        throw new Error('database password wrong');
      },
    });
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(503);
    expect(response.headers.get('x-should-retry')).toBe('true');
    expect(response.headers.get('retry-after')).toBe('1');
    const text = await response.text();
    expect(JSON.parse(text).error.code).toBe('authentication_unavailable');
    expect(text).not.toContain('password');
    expect(gateway.errors[0]?.cause).toMatchObject({ message: 'database password wrong' });
    await gateway.close();
  });

  it('are asked for again after a call that does not end: its requests get a 503', async () => {
    let calls = 0;
    const authenticator = createAuthenticator(new MemoryStore(), () => {
      calls += 1;
      return calls === 1 ? new Promise(() => {}) : { account: 'acct' };
    });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const both = Promise.allSettled([1, 2].map(async () => authenticator.authenticate(bearer('theirs'))));
    await vi.advanceTimersByTimeAsync(10_000);
    vi.useRealTimers();
    const refused = { status: 503, code: 'authentication_unavailable' };
    const cause = { message: 'authenticate has not answered within 10000 ms' };
    expect(await both).toMatchObject([{ reason: { ...refused, cause } }, { reason: refused }]);
    expect(await authenticator.authenticate(bearer('theirs'))).toMatchObject({ account: 'acct' });
    expect(calls).toBe(2);
  });

  it('are not evicted by a flood of unauthenticated clients', async () => {
    let asked = 0;
    const authenticator = createAuthenticator(new MemoryStore(), (apiKey) => {
      asked += apiKey === 'known' ? 1 : 0;
      return apiKey === 'known' ? { account: 'acct' } : undefined;
    });
    await authenticator.authenticate(bearer('known'));
    for (let i = 0; i < 100_000; i++)
      await Promise.resolve(authenticator.authenticate(bearer(`stranger-${i}`))).catch(() => {});
    await authenticator.authenticate(bearer('known'));
    expect(asked).toBe(1);
  });
});

describe('a key that is revoked at another router', () => {
  it('is not in the cache any more once a completion was refused, and no refusal walks through the cache', async () => {
    const one = await startGateway({ sessions: { secret: 'x'.repeat(32) } });
    const other = await startGateway({ store: one.store, sessions: { secret: 'x'.repeat(32) } });
    const origins = ['https://chat.example.com'];
    const { session } = one.router.sessions.create({
      account: 'acct',
      maxSpend: '1',
      ttlMs: 60_000,
      origins,
    });
    const get = async (key: string): Promise<number> => {
      const response = await other.fetch('/models', { headers: bearer(key) });
      await response.text();
      return response.status;
    };
    expect(await get(one.key)).toBe(200);
    const [key] = await one.router.keys.list('acct');
    await one.router.keys.revoke('acct', String(key?.id));
    await one.router.sessions.revoke(session);
    const walk = vi.spyOn(LRUCache.prototype, 'entries');
    for (const revoked of [one.key, session]) {
      const response = await other.post(QUESTION, { headers: bearer(revoked) });
      expect(await response.json()).toMatchObject({ error: { code: 'revoked_api_key' } });
    }
    expect(walk).not.toHaveBeenCalled();
    walk.mockRestore();
    expect(await get(one.key)).toBe(401);
    await other.close();
    await one.close();
  });

  it('has no more completions, and GET only for the cache’s time, however much it is used', async () => {
    const one = await startGateway({ keyCacheMs: 300 });
    const other = await startGateway({ store: one.store, keyCacheMs: 300 });
    const authorization = `Bearer ${one.key}`;
    const get = async (): Promise<number> => {
      const response = await other.fetch('/models', { headers: { authorization } });
      await response.text();
      return response.status;
    };
    expect(await get()).toBe(200);
    const [key] = await one.router.keys.list('acct');
    await one.router.keys.revoke('acct', String(key?.id));
    const revokedAt = Date.now();
    let lastGetAt = revokedAt;
    while (Date.now() < revokedAt + 600) {
      const askedAt = Date.now();
      if ((await get()) === 200) lastGetAt = askedAt;
      const response = await other.post(QUESTION, { headers: { authorization } });
      expect(response.status).toBe(401);
    }
    expect(lastGetAt - revokedAt).toBeLessThan(400);
    expect(other.provider.received).toHaveLength(0);
    await other.close();
    await one.close();
  });
});
