import { createHash } from 'node:crypto';

import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';

import { requestLibrary } from '../../../src/ledger/stores/redis/lua/library.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import type { RedisClient } from '../../../src/ledger/stores/redis/redis-client.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { describeLedgerStore } from '../../contracts/index.ts';
import { hashOf, NOON } from '../../contracts/ledger-fixture.ts';
import { admission, namespace, settlement, story } from '../../helpers/redis-ledger.ts';
import type { RedisServer } from '../../helpers/redis-server.ts';
import { useRedis } from '../../helpers/use-redis.ts';

let server: RedisServer;
let redis: Redis;
let withoutFunctions: Redis;

useRedis((own) => ({ server, redis } = own));

beforeAll(async () => {
  withoutFunctions = await clientOf('scripts', '-fcall');
});

afterAll(() => {
  withoutFunctions.disconnect();
});

describeLedgerStore(
  'RedisStore, where functions are refused',
  ({ now }) => new RedisStore({ client: withoutFunctions, keyPrefix: namespace(), now }),
  { sequences: 300 },
);

describe('the functions of a request', () => {
  it('are called, once their library is loaded', async () => {
    const store = await openStore(redis);
    await loadLibrary(store);
    await redis.config('RESETSTAT');
    await store.admit(admission(2, 1n));
    await store.settle(settlement(2, 1n));
    expect(await calls()).toEqual({ fcall: 2, evalsha: 0 });
  });

  it('are loaded again when the server has lost them, and the command is sent as a script', async () => {
    const store = await openStore(redis);
    await loadLibrary(store);
    await redis.function('FLUSH');
    expect(await store.admit(admission(2, 1n))).toMatchObject({ code: 'ok' });
    await expect.poll(libraries).toHaveLength(1);
  });

  it('may be lost before any call', async () => {
    const client = clientThat(async (command) => {
      if (command === 'fcall') await redis.function('FLUSH');
    });
    const store = new RedisStore({ client, keyPrefix: namespace(), now: () => NOON });
    expect(await story(store)).toEqual(await story(new MemoryStore({ now: () => NOON })));
    await store.close();
  });

  it.each([['-fcall'], ['-function']])('are not needed by a user with %s', async (rights) => {
    await redis.function('FLUSH');
    const client = await clientOf('limited', rights);
    onTestFinished(() => client.disconnect());
    const store = await openStore(client);
    await redis.config('RESETSTAT');
    for (let n = 1; n <= 3; n++) {
      expect(await store.admit(admission(n, 1n))).toMatchObject({ code: 'ok' });
      expect(await store.settle(settlement(n, 1n))).toMatchObject({ code: 'ok', charged: 1n });
    }
    // It asked once.
    expect(await calls()).toMatchObject({ evalsha: 6 });
    expect(await libraries()).toEqual([]);
  });

  it('leave the libraries of other versions alone', async () => {
    await redis.function('FLUSH');
    const other = `#!lua name=ccr_other\nredis.register_function('ccr_other_admit', function() return 1 end)`;
    await redis.function('LOAD', other);
    await loadLibrary(await openStore(redis));
    expect(await libraries()).toContain('ccr_other');
  });

  it('have names that change with any line of their library', () => {
    const { source } = requestLibrary();
    const [name = ''] = /ccr_\w{16}/.exec(source) ?? [];
    const hash = createHash('sha1').update(source.replaceAll(name, '')).digest('hex');
    expect(name).toBe(`ccr_${hash.slice(0, 16)}`);
  });

  it('begin with the first value of each variable', () => {
    const [shared = ''] = requestLibrary().source.split('local function reset()');
    const names = [...shared.matchAll(/^local ([a-z_, ]+)(?= =|$)/gm)].flatMap(([, found = '']) =>
      found.split(', '),
    );
    const reset = /local function reset\(\)\n(.*?)\nend\n/s.exec(requestLibrary().source)?.[1] ?? '';
    const missing = names.filter((name) => !new RegExp(`\\b${name}\\b.* = `).test(reset));
    // Functions, which never change.
    const ours = missing.filter((name) => !name.startsWith('lua_'));
    expect(ours).toEqual(['save_lots', 'save_keys', 'save_usage']);
  });

  it('know the terms of more keys than they keep', async () => {
    const store = await openStore(redis);
    await loadLibrary(store);
    const keys = Array.from({ length: 1100 }, (_, n) => `k${n}`);
    const limits = (concurrentRequests: number) => ({ concurrentRequests });
    for (const [n, key] of keys.entries()) {
      await store.createKey({
        account: 'acme',
        key,
        hash: hashOf(key),
        name: '',
        limits: limits(1 + (n % 2)),
      });
    }
    const run = (key: string, n: number) => store.admit({ ...admission(n, 0n), key, externalKey: false });
    const both = await Promise.all(
      keys.flatMap((key, n) => [run(key, 10_000 + 2 * n), run(key, 10_001 + 2 * n)]),
    );
    const refused = both.filter(({ code }) => code !== 'ok');
    expect(refused).toHaveLength(550);
    expect(refused.every(({ code }) => code === 'concurrency')).toBe(true);
    await store.updateKey({ account: 'acme', key: 'k0', name: '', version: 1, limits: limits(2) });
    expect(await run('k0', 20_000)).toMatchObject({ code: 'ok' });
    expect(await run('k0', 20_001)).toMatchObject({ code: 'concurrency', limit: 2 });
  });

  it('look up no global but at their first call', () => {
    const { source } = requestLibrary();
    const [, , firstCall = ''] = /^(local function find_built_ins\(\)\n)(.*?)\nend\n/ms.exec(source) ?? [];
    const others = source.replace(firstCall, '').replaceAll(/'[^']*'/g, '');
    expect(firstCall).toContain('redis.call');
    expect(others.match(/\b(redis|string|math|table)\.\w+\(/g)).toEqual(null);
    expect(others.match(/(?<!lua_)\b(next|tonumber|type|unpack|pairs|ipairs)\(/g)).toEqual(null);
  });
});

describe('the commands of one turn of the event loop', () => {
  it('leave in one write', async () => {
    const client = new Redis(server.url);
    onTestFinished(() => client.disconnect());
    const store = await openStore(client);
    await loadLibrary(store);
    const one = vi.spyOn(client.stream, '_write');
    // oxlint-disable-next-line typescript/no-non-null-assertion -- a socket has it
    const many = vi.spyOn(client.stream as { _writev: NonNullable<Redis['stream']['_writev']> }, '_writev');
    const admitted = await Promise.all([2, 3, 4, 5].map((n) => store.admit(admission(n, 1n))));
    expect(admitted.map(({ code }) => code)).toEqual(['ok', 'ok', 'ok', 'ok']);
    expect([one.mock.calls.length, many.mock.calls.length]).toEqual([0, 1]);
  });
});

/** A store with an account. */
async function openStore(client: RedisClient): Promise<RedisStore> {
  const store = new RedisStore({ client, keyPrefix: namespace() });
  onTestFinished(() => store.close());
  await store.grant({ account: 'acme', id: 'g1', amount: 1000n });
  return store;
}

/** By its first request. */
async function loadLibrary(store: RedisStore): Promise<void> {
  await store.admit(admission(1, 1n));
  const [name = ''] = /ccr_\w+/.exec(requestLibrary().source) ?? [];
  await expect.poll(libraries).toContain(name);
  // Its reply came before this one.
  await store.balance('acme');
}

async function libraries(): Promise<readonly string[]> {
  const list = JSON.stringify(await redis.function('LIST'));
  return [...list.matchAll(/"library_name","(\w+)"/g)].map(([, name = '']) => name);
}

/** How often the server ran functions and scripts for the store. */
async function calls(): Promise<{ readonly fcall: number; readonly evalsha: number }> {
  const stats = await redis.info('commandstats');
  const count = (name: string): number =>
    Number(new RegExp(`^cmdstat_${name}:calls=(\\d+)`, 'm').exec(stats)?.[1] ?? 0);
  return { fcall: count('fcall'), evalsha: count('evalsha') };
}

/** A client of a user with all rights except these. */
async function clientOf(username: string, rights: string): Promise<Redis> {
  await redis.call('ACL', 'SETUSER', username, 'reset', 'on', '>secret', '~*', '&*', '+@all', rights);
  return new Redis({ port: server.port, username, password: 'secret' });
}

/** The client of all tests, with something done before each of its commands. */
function clientThat(does: (command: string) => Promise<void>): RedisClient {
  const createBuiltinCommand: RedisClient['createBuiltinCommand'] = (command) => ({
    string: async (...args) => {
      await does(command);
      return redis.createBuiltinCommand(command).string.apply(redis, args);
    },
  });
  return Object.create(redis, { createBuiltinCommand: { value: createBuiltinCommand } });
}
