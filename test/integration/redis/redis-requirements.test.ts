import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';

import {
  createChatCompletionsRouter,
  type LedgerStore,
  MemoryStore,
  SqliteStore,
} from '../../../src/index.ts';
import { readServerFacts } from '../../../src/ledger/stores/redis/redis-requirements.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { admission } from '../../helpers/redis-ledger.ts';
import { freePort, type RedisServer, startRedis } from '../../helpers/redis-server.ts';
import { useRedis } from '../../helpers/use-redis.ts';

let server: RedisServer;
let redis: Redis;

useRedis((own) => ({ server, redis } = own));

beforeEach(async () => {
  await redis.flushall();
});

afterEach(async () => {
  await redis.config('SET', 'maxmemory-policy', 'noeviction');
});

/** A store by URL that is closed when its test ends. */
function openStore(url: string = server.url): RedisStore {
  const store = new RedisStore(url);
  onTestFinished(() => store.close());
  return store;
}

const FOLDER = 'src/ledger/stores/redis';
/** All commands of Redis that scripts call, and that the store sends; but those that scripts can't call. */
const COMMANDS: readonly string[] = [
  ...new Set(
    readdirSync(FOLDER, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .flatMap((file) => [
        ...readFileSync(join(FOLDER, file), 'utf8').matchAll(/(?:redis\.call|\bsend)\('(\w+)'/g),
      ])
      .map(([, command = '']) => command.toUpperCase()),
  ),
].filter((command) => !/^(?:EVAL|EVALSHA|FCALL|WAIT|WAITAOF)$/.test(command));

function routerWith(store: string | LedgerStore) {
  const router = createChatCompletionsRouter({ store, providers: {}, models: {} });
  onTestFinished(() => router.close());
  return router;
}

/** How often the server ran a command. */
async function calls(command: string): Promise<number> {
  const stats = await redis.info('commandstats');
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}

describe('router.ready', () => {
  it('resolves once Redis answers', async () => {
    await expect(routerWith(server.url).ready()).resolves.toBeUndefined();
  });

  it('resolves at once in memory, and opens the file of SQLite', async () => {
    await expect(routerWith('memory:').ready()).resolves.toBeUndefined();
    const folder = mkdtempSync(join(tmpdir(), 'ccr-ready-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    await expect(routerWith(`sqlite:${join(folder, 'credits.db')}`).ready()).resolves.toBeUndefined();
    await expect(routerWith(`sqlite:${join(folder, 'no-such', 'credits.db')}`).ready()).rejects.toMatchObject(
      {
        name: 'StoreUnavailableError',
        message: expect.stringMatching(/^The store sqlite:.*credits\.db can't be used: .*ENOENT/),
      },
    );
  });

  it('says what the system says of a file that SQLite can not open', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ccr-ready-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, 'notes.txt'), '');
    const store = `sqlite:${join(folder, 'notes.txt', 'credits.db')}`;
    await expect(routerWith(store).ready()).rejects.toThrow(
      /^The store sqlite:.*credits\.db can't be used: .*unable to open database file: ENOTDIR/,
    );
  });

  it('says why Redis can not be reached', async () => {
    const port = await freePort();
    await expect(routerWith(`redis://127.0.0.1:${port}`).ready()).rejects.toMatchObject({
      name: 'StoreUnavailableError',
      message: `The store redis://127.0.0.1:${port} can't be used: connect ECONNREFUSED 127.0.0.1:${port}`,
      cause: { code: 'ECONNREFUSED' },
    });
  });

  it('names a store that was made by hand by its URL, without the password', async () => {
    const port = await freePort();
    const redisStore = new RedisStore(`redis://ada:secret@127.0.0.1:${port}/3`);
    await expect(routerWith(redisStore).ready()).rejects.toThrow(
      `The store redis://ada:***@127.0.0.1:${port}/3 can't be used: connect ECONNREFUSED 127.0.0.1:${port}`,
    );
    const folder = mkdtempSync(join(tmpdir(), 'ccr-ready-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const sqliteStore = new SqliteStore(join(folder, 'no-such', 'credits.db'));
    await expect(routerWith(sqliteStore).ready()).rejects.toThrow(
      /^The store sqlite:.*credits\.db can't be used: .*ENOENT/,
    );
  });

  it('shows no password that the error of a store of your own has in a URL', async () => {
    const store = Object.assign(new MemoryStore(), {
      name: 'postgres://db/credits',
      ready: () => Promise.reject(new Error('no route to postgres://app:secret@db/credits')),
    });
    await expect(routerWith(store).ready()).rejects.toThrow(
      "The store postgres://db/credits can't be used: no route to postgres://***@db/credits",
    );
  });

  it('says what a node of a cluster answered', async () => {
    await expect(routerWith(`redis+cluster://:secret@127.0.0.1:${server.port}`).ready()).rejects.toThrow(
      /^The store redis\+cluster:\/\/:\*{3}@127\.0\.0\.1:\d+ can't be used: .*cluster support disabled/,
    );
  });

  it('rejects where Redis never answers', async () => {
    const frozen = await startRedis();
    onTestFinished(() => frozen.kill());
    frozen.freeze();
    await expect(routerWith(frozen.url).ready()).rejects.toMatchObject({
      name: 'StoreUnavailableError',
      message: expect.stringContaining(`The store ${frozen.url} can't be used: it did not answer in time.`),
    });
  });

  it.each(['allkeys-lru', 'volatile-ttl'])(
    'says what to change where %s may evict credits',
    async (policy) => {
      await redis.config('SET', 'maxmemory-policy', policy);
      await expect(routerWith(server.url).ready()).rejects.toThrow(
        `The store ${server.url} can't be used: Redis may evict credits: its maxmemory-policy is ${policy}. Set it to noeviction`,
      );
    },
  );

  it('says that a password is wrong', async () => {
    await redis.call('ACL', 'SETUSER', 'ada', 'on', '>right', '~*', '+@all');
    await expect(routerWith(`redis://ada:right@127.0.0.1:${server.port}`).ready()).resolves.toBeUndefined();
    await expect(routerWith(`redis://ada:wrong@127.0.0.1:${server.port}`).ready()).rejects.toMatchObject({
      message: expect.stringMatching(
        /^The store redis:\/\/ada:\*{3}@127\.0\.0\.1:\d+ can't be used: WRONGPASS/,
      ),
      cause: { message: expect.stringMatching(/^WRONGPASS/) },
    });
  });
});

describe('ready() of a RedisStore', () => {
  it('rejects where Redis has no memory left, as an admit would', async () => {
    const store = openStore();
    await redis.config('SET', 'maxmemory', '1');
    await expect(store.ready()).rejects.toMatchObject({
      name: 'StoreUnavailableError',
      cause: { message: expect.stringMatching(/^OOM/) },
    });
    await redis.config('SET', 'maxmemory', '0');
    await expect(store.ready()).resolves.toBeUndefined();
  });

  it('rejects where its user may run no scripts', async () => {
    await redis.call('ACL', 'SETUSER', 'bob', 'on', '>right', '~*', '+@all', '-@scripting');
    const store = new RedisStore(`redis://bob:right@127.0.0.1:${server.port}`);
    onTestFinished(() => store.close());
    await expect(store.ready()).rejects.toMatchObject({
      cause: { message: expect.stringMatching(/^NOPERM/) },
    });
  });

  it('names each command that its user may not run, and leaves nothing behind', async () => {
    for (const command of COMMANDS) {
      const rules = ['reset', 'on', '>right', '~*', '+@all', `-${command}`];
      await redis.call('ACL', 'SETUSER', 'carol', ...rules);
      const store = new RedisStore(`redis://carol:right@127.0.0.1:${server.port}`);
      await expect(store.ready(), command).rejects.toThrow(
        `Redis refuses these commands: ${command}. Allow them in the ACL of its user`,
      );
      await store.close();
    }
    expect(await redis.dbsize()).toBe(0);
  });

  it('names several commands', async () => {
    await redis.call('ACL', 'SETUSER', 'carol', 'on', '>right', '~*', '+@all', '-zadd', '-hset');
    await expect(openStore(`redis://carol:right@127.0.0.1:${server.port}`).ready()).rejects.toThrow(
      'Redis refuses these commands: HSET, ZADD. Allow them',
    );
  });

  it('is content with the user that the documentation shows', async () => {
    const [, rules = ''] = /^user router (.+)$/m.exec(readFileSync('docs/redis.md', 'utf8')) ?? [];
    await redis.call('ACL', 'SETUSER', 'router', ...rules.split(' '));
    await expect(
      openStore(`redis://router:PASSWORD@127.0.0.1:${server.port}`).ready(),
    ).resolves.toBeUndefined();
  });

  it('leaves nothing behind, also where there are accounts', async () => {
    const store = openStore();
    for (const account of ['acme', 'missing']) await store.grant({ account, id: 'g1', amount: 5n });
    const before = [await redis.dbsize(), await store.snapshot('acme'), await store.snapshot('missing')];
    await store.ready();
    await store.ready();
    expect([await redis.dbsize(), await store.snapshot('acme'), await store.snapshot('missing')]).toEqual(
      before,
    );
  });
});

describe('RedisStore', () => {
  it('gives no command to a Redis that may evict credits, and does once it may not', async () => {
    await redis.config('SET', 'maxmemory-policy', 'allkeys-lru');
    const store = openStore();
    const refusal = {
      name: 'StoreUnavailableError',
      applied: 'no',
      cause: { message: expect.stringContaining('maxmemory-policy') },
    };
    await expect(store.grant({ account: 'acme', id: 'g1', amount: 9n })).rejects.toMatchObject(refusal);
    await expect(store.admit(admission(1, 9n))).rejects.toMatchObject(refusal);
    expect(await redis.dbsize()).toBe(0);
    await redis.config('SET', 'maxmemory-policy', 'noeviction');
    await expect
      .poll(() => store.grant({ account: 'acme', id: 'g1', amount: 9n }).catch(() => undefined))
      .toMatchObject({ code: 'ok' });
  });

  it('checks the server again that it is connected to again', async () => {
    const store = openStore();
    await store.grant({ account: 'acme', id: 'g1', amount: 9n });
    await redis.config('SET', 'maxmemory-policy', 'allkeys-lru');
    await redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await expect
      .poll(() => store.balance('acme').catch(({ cause }: Error) => cause))
      .toMatchObject({ message: expect.stringContaining('maxmemory-policy') });
  });

  it('asks what the server is once a connection, not once a command', async () => {
    const store = openStore();
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    const before = await calls('info');
    for (let n = 1; n <= 20; n++) await store.admit(admission(n, 1n));
    // One of them is the question before.
    expect((await calls('info')) - before).toBe(1);
  });

  it('trusts a Redis that bars it from asking', async () => {
    await redis.call('ACL', 'SETUSER', 'bob', 'on', '>secret', '~*', '+@all', '-info');
    const client = new Redis(server.port, { username: 'bob', password: 'secret', enableReadyCheck: false });
    onTestFinished(() => client.disconnect());
    const store = new RedisStore(client);
    onTestFinished(() => store.close());
    expect(await store.grant({ account: 'acme', id: 'g1', amount: 9n })).toMatchObject({ code: 'ok' });
  });

  it('puts its keys where the URL says', async () => {
    const store = openStore(`${server.url}/3?prefix=app:`);
    await store.grant({ account: 'acme', id: 'g1', amount: 9n });
    const other = new Redis(server.port, { db: 3 });
    onTestFinished(() => other.disconnect());
    expect(await other.keys('app:ccr:{acme}:*')).toHaveLength(10);
    expect(await redis.dbsize()).toBe(0);
  });

  it('closes the connections that it made', async () => {
    const store = new RedisStore(server.url);
    await store.grant({ account: 'acme', id: 'g1', amount: 9n });
    const connections = async () =>
      String(await redis.call('CLIENT', 'LIST'))
        .trim()
        .split('\n').length;
    const before = await connections();
    await store.close();
    await expect.poll(connections).toBe(before - 1);
  });

  it('lets what was sent come to its end when it is closed', async () => {
    const store = new RedisStore(server.url);
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    const admitted = Promise.all([1, 2, 3].map((n) => store.admit(admission(n, 1n))));
    await store.close();
    expect((await admitted).map(({ code }) => code)).toEqual(['ok', 'ok', 'ok']);
  });

  it('is back by itself after Redis is', async () => {
    const own = await startRedis(['--appendonly', 'yes']);
    onTestFinished(() => own.kill());
    const store = openStore(own.url);
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await own.restart();
    await expect.poll(() => store.balance('acme').catch(() => undefined)).toMatchObject({ available: 100n });
  });
});

describe('what INFO says', () => {
  const info = (fields: Record<string, string>): string =>
    Object.entries({ maxmemory_policy: 'noeviction', ...fields })
      .map(([name, value]) => `${name}:${value}\r\n`)
      .join('');

  it.each([
    ['Redis 7.0', { redis_version: '7.0.0' }],
    ['Redis 8.2', { redis_version: '8.2.1' }],
    ['Valkey, which calls itself Redis 7.2', { redis_version: '7.2.4', valkey_version: '8.1.0' }],
    ['a Valkey that would call itself nothing', { valkey_version: '8.1.0' }],
  ])('lets %s keep money', (_, fields) => {
    expect(readServerFacts(info(fields)).fault).toBeUndefined();
  });

  it.each(['6.2.14', '5.0.7', '2.8.24'])('refuses Redis %s', (version) => {
    expect(readServerFacts(info({ redis_version: version })).fault).toBe(
      `requires Redis >= 7.0 or Valkey, found Redis ${version}`,
    );
  });

  it.each([
    ['7.0.15', '1', false],
    ['7.2.0', '1', true],
    ['7.2.0', '0', false],
    ['8.0.3', '1', true],
  ])('of Redis %s with appendonly %s: its disk can be waited for, %s', (version, aof, expected) => {
    const facts = readServerFacts(info({ redis_version: version, aof_enabled: aof }));
    expect(facts.canWaitForDisk).toBe(expected);
  });
});
