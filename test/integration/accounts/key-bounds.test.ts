import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { type ChatCompletionsRouter, type FoundKey, RedisStore } from '../../../src/index.ts';
import { clientsOf, type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

const KEY_CACHE_MS = 300;
/** By how much timers may be late. */
const SLACK_MS = 50;

let server: RedisServer;
const clients: Redis[] = [];
/** Where keys are changed, and where they are used. */
let here: Gateway;
let there: Gateway;

beforeAll(async () => {
  server = await startRedis();
});

afterAll(async () => {
  for (const client of clients) client.disconnect();
  await server.stop();
});

function openStore(): GatedStore {
  const client = new Redis(server.url);
  clients.push(client);
  // On a busy machine an answer that comes late is no answer of another kind.
  return new GatedStore({ client, timeoutMs: 5000 });
}

/** A store whose look-ups of keys can be made to take their time. */
class GatedStore extends RedisStore {
  gate: Promise<void> | undefined;
  onLookUp: (() => void) | undefined;
  lookUps = 0;

  override async findKey(hash: string): Promise<FoundKey | undefined> {
    this.lookUps += 1;
    const found = await super.findKey(hash);
    this.onLookUp?.();
    await this.gate;
    return found;
  }
}

const stores: { here: GatedStore; there: GatedStore } = { here: undefined!, there: undefined! };

beforeEach(async () => {
  stores.here = openStore();
  stores.there = openStore();
  here = await startGateway({ store: stores.here, keyCacheMs: KEY_CACHE_MS });
  there = await startGateway({ store: stores.there, keyCacheMs: KEY_CACHE_MS });
});

afterEach(async () => {
  await here.close();
  await there.close();
});

interface Asked {
  readonly what: 'completion' | 'models';
  readonly sentAt: number;
  readonly status: number;
}

interface Hammering {
  /** Resolves once enough of a kind was asked after some time, and answered. */
  readonly until: (what: Asked['what'], since: number) => Promise<void>;
  readonly stop: () => Promise<readonly Asked[]>;
}

const ENOUGH = 10;

/** Asks without a pause, from several connections, until it is stopped. */
function hammer(key: string): Hammering {
  const { fetch, post } = clientsOf(there.baseURL, key);
  const asked: Asked[] = [];
  let onAnswer = (): void => {};
  const stopping = new AbortController();
  const worker = async (what: Asked['what']): Promise<void> => {
    while (!stopping.signal.aborted) {
      const sentAt = performance.now();
      const response = await (what === 'completion' ? post(QUESTION) : fetch('/models'));
      await response.arrayBuffer();
      asked.push({ what, sentAt, status: response.status });
      onAnswer();
    }
  };
  const workers = (['completion', 'completion', 'completion', 'models'] as const).map(worker);
  return {
    until: (what, since) =>
      new Promise((resolve) => {
        onAnswer = () => {
          const later = asked.filter((one) => one.what === what && one.sentAt > since);
          if (later.length >= ENOUGH) resolve();
        };
      }),
    stop: async () => {
      stopping.abort();
      await Promise.all(workers);
      return asked;
    },
  };
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** The status of what was sent after `since`, of one kind, each once. */
function statusesAfter(asked: readonly Asked[], what: Asked['what'], since: number): Set<number> {
  const later = asked.filter((one) => one.what === what && one.sentAt > since);
  expect(later.length).toBeGreaterThanOrEqual(ENOUGH);
  return new Set(later.map(({ status }) => status));
}

describe('a change of a key that another router hammers', () => {
  it.each<[string, number, (keys: ChatCompletionsRouter['keys'], id: string) => Promise<unknown>]>([
    ['a revocation', 401, (keys, id) => keys.revoke('acct', id)],
    ['an expiry', 401, (keys, id) => keys.update('acct', id, { expiresAt: new Date(0) })],
    ['a rotation without an overlap', 401, (keys, id) => keys.rotate('acct', id)],
    ['another set of models', 403, (keys, id) => keys.update('acct', id, { models: ['other/*'] })],
    [
      'a budget of nothing',
      402,
      (keys, id) => keys.update('acct', id, { budget: { amount: '0', per: 'day' } }),
    ],
  ])('counts for every completion after it: %s', async (what, status, change) => {
    const { key, id } = await here.router.keys.create({ account: 'acct' });
    const hammering = hammer(key);
    await hammering.until('completion', 0);
    await change(here.router.keys, id);
    const changedAt = performance.now();
    await hammering.until('completion', changedAt);
    await hammering.until('models', changedAt + KEY_CACHE_MS + SLACK_MS);
    const asked = await hammering.stop();
    expect(asked.some((one) => one.status === 200 && one.sentAt < changedAt)).toBe(true);
    expect(statusesAfter(asked, 'completion', changedAt)).toEqual(new Set([status]));
    const models = statusesAfter(asked, 'models', changedAt + KEY_CACHE_MS + SLACK_MS);
    expect(models).toEqual(new Set([status === 401 ? 401 : 200]));
    if (what === 'a revocation') expect(there.errors).toEqual([]);
  });

  it('counts for everything once a completion was refused for it', async () => {
    const { key, id } = await here.router.keys.create({ account: 'acct' });
    const { fetch, post } = clientsOf(there.baseURL, key);
    expect((await post(QUESTION)).status).toBe(200);
    await here.router.keys.revoke('acct', id);
    expect((await fetch('/models')).status).toBe(200);
    expect((await post(QUESTION)).status).toBe(401);
    expect((await fetch('/models')).status).toBe(401);
  });

  it('is not undone by a look-up that began before it, however slow', async () => {
    const { key, id } = await here.router.keys.create({ account: 'acct' });
    const { fetch, post } = clientsOf(there.baseURL, key);
    let open = (): void => {};
    stores.there.gate = new Promise((resolve) => {
      open = resolve;
    });
    const lookedUp = new Promise<void>((resolve) => {
      stores.there.onLookUp = resolve;
    });
    const startedAt = performance.now();
    const slow = post(QUESTION);
    await lookedUp;
    await here.router.keys.revoke('acct', id);
    await pause(KEY_CACHE_MS);
    stores.there.gate = undefined;
    open();
    expect((await slow).status).toBe(401);
    expect(performance.now() - startedAt).toBeGreaterThan(KEY_CACHE_MS);
    // What the slow look-up said is already too old to be kept.
    expect((await fetch('/models')).status).toBe(401);
    expect((await post(QUESTION)).status).toBe(401);
    expect(there.provider.received).toHaveLength(0);
  });

  it('costs a look-up, and none more for what comes after it', async () => {
    const { key, id } = await here.router.keys.create({ account: 'acct' });
    const { post } = clientsOf(there.baseURL, key);
    await post(QUESTION);
    await here.router.keys.update('acct', id, { name: 'new' });
    stores.there.lookUps = 0;
    expect((await post(QUESTION)).status).toBe(200);
    expect((await post(QUESTION)).status).toBe(200);
    expect(stores.there.lookUps).toBe(1);
  });
});

describe('what Redis has of a key', () => {
  it('is its hash alone, also when it was rotated', async () => {
    const { key, id } = await here.router.keys.create({ account: 'acct', name: 'prod' });
    const rotated = await here.router.keys.rotate('acct', id, { overlapMs: 60_000 });
    await clientsOf(there.baseURL, key).post(QUESTION);
    const redis = new Redis(server.url);
    clients.push(redis);
    await redis.config('SET', 'rdbcompression', 'no');
    const names = await redis.keys('*');
    const dumps = await Promise.all(names.map((name) => redis.dumpBuffer(name)));
    const all = Buffer.concat([
      Buffer.from(names.join(' ')),
      ...dumps.map((dump) => dump ?? Buffer.alloc(0)),
    ]);
    for (const secret of [key, rotated?.key ?? '']) {
      expect(secret).toMatch(/^sk-ccr-/);
      expect(all.includes(secret)).toBe(false);
      expect(all.includes(secret.slice(17, 40))).toBe(false);
    }
  });
});
