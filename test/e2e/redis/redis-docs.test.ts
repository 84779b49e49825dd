import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';

import { type AccountVerification, RedisStore, verifyLedger } from '../../../src/index.ts';
import { describeLedgerStore } from '../../contracts/index.ts';
import { startCluster } from '../../helpers/redis-cluster.ts';
import { namespace, story } from '../../helpers/redis-ledger.ts';
import { type RedisServer, startRedis, startRedisWithConfig } from '../../helpers/redis-server.ts';

const PAGE = readFileSync(new URL('../../../docs/redis.md', import.meta.url), 'utf8');
const CONFIG = confBlock('redis.conf');
const ACL = confBlock('users.conf');
/** The rules of the documented user; for keys of any prefix, as the tests have theirs. */
const RULES = /^user router (.*)$/m.exec(ACL)?.[1]?.replace('~ccr:*', '~*ccr:*') ?? '';
/** The row of the table that says what a cluster needs beside. */
const [, CLUSTER_RULES = ''] = /^\| `([^`]*)` +\| Redis Cluster/m.exec(PAGE) ?? [];

/** An order for accounts, which a store lists in any. */
function byAccount(a: { account: string }, b: { account: string }): number {
  return a.account < b.account ? -1 : 1;
}

function confBlock(name: string): string {
  const [, block] = new RegExp(`^\`\`\`conf\\n(# ${name}\\n.*?)^\`\`\``, 'ms').exec(PAGE) ?? [];
  if (block === undefined) throw new Error(`docs/redis.md has no block that begins with # ${name}`);
  return block;
}

describe('docs/redis.md', () => {
  it('has settings with which a server is fit to store money, and durable', async () => {
    const primary = await startRedisWithConfig((directory) => {
      const file = join(directory, 'redis.conf');
      writeFileSync(file, CONFIG.replaceAll('# min-replicas', 'min-replicas'));
      return [file, '--repl-diskless-sync-delay', '0'];
    });
    onTestFinished(() => primary.stop());
    const replica = await startRedis(['--replicaof', '127.0.0.1', String(primary.port)]);
    onTestFinished(() => replica.stop());
    const redis = new Redis(primary.url);
    onTestFinished(() => redis.disconnect());
    await expect.poll(() => redis.info('replication'), { timeout: 20_000 }).toMatch(/state=online/);
    expect(await redis.config('GET', 'maxmemory', 'maxmemory-policy', 'appendonly')).toEqual(
      expect.arrayContaining(['noeviction', 'yes', String(4 * 1024 ** 3)]),
    );
    const store = new RedisStore(primary.url);
    onTestFinished(() => store.close());
    await store.ready();
    // The first may take the replica longer than is waited for.
    let grants = 0;
    const grant = (): Promise<unknown> =>
      store.grant({ account: 'acme', id: `g${(grants += 1)}`, amount: 1n });
    await expect.poll(grant, { timeout: 20_000 }).toMatchObject({ durable: true });
  });

  it('has users with whom a server keeps its credits, and without whom nothing is allowed', async () => {
    const server = await startRedisWithConfig((directory) => {
      const file = join(directory, 'redis.conf');
      writeFileSync(file, CONFIG + ACL);
      return [file];
    });
    onTestFinished(() => server.stop());
    const url = `redis://router:PASSWORD@127.0.0.1:${server.port}`;
    const store = new RedisStore(url);
    onTestFinished(() => store.close());
    await store.ready();
    await story(store);
    const accounts = async (of: RedisStore): Promise<AccountVerification[]> => {
      const found: AccountVerification[] = [];
      for await (const account of verifyLedger(of)) found.push(account);
      return found.toSorted(byAccount);
    };
    const before = await accounts(store);
    expect(before.length).toBeGreaterThan(0);
    expect(before.flatMap(({ findings }) => findings)).toEqual([]);

    await server.restart();
    const later = new RedisStore(url);
    onTestFinished(() => later.close());
    expect(await accounts(later)).toEqual(before);

    const nameless = new RedisStore(server.url);
    onTestFinished(() => nameless.close());
    await expect(nameless.balance('acme')).rejects.toMatchObject({
      cause: { message: expect.stringContaining('NOAUTH') as string },
    });
    const admin = new Redis({ port: server.port, username: 'admin', password: 'ADMIN_PASSWORD' });
    onTestFinished(() => admin.disconnect());
    expect(await admin.config('GET', 'appendonly')).toEqual(['appendonly', 'yes']);
  });

  it('has what the user needs in a cluster', async () => {
    const cluster = await startCluster({ withReplicas: true });
    onTestFinished(() => cluster.stop());
    expect(CLUSTER_RULES).toContain('+cluster');
    for (const { redis } of [...cluster.primaries, ...cluster.replicas]) {
      const rules = `${RULES} ${CLUSTER_RULES.replaceAll(String.raw`\|`, '|')}`.split(' ');
      await redis.call('ACL', 'SETUSER', 'router', ...rules);
      await redis.call('ACL', 'LOG', 'RESET');
    }
    const store = new RedisStore(cluster.url.replace('://', '://router:PASSWORD@'));
    onTestFinished(() => store.close());
    await store.ready();
    await story(store);
    expect(await store.grant({ account: 'other', id: 'g1', amount: 1n })).toMatchObject({ durable: true });
    for (const { redis } of cluster.primaries) expect(await redis.call('ACL', 'LOG')).toEqual([]);
  });
});

describe('the user of docs/redis.md', () => {
  let server: RedisServer;
  let admin: Redis;
  let redis: Redis;

  beforeAll(async () => {
    server = await startRedis();
    admin = new Redis(server.url);
    await admin.call('ACL', 'SETUSER', 'router', ...RULES.split(' '));
    redis = new Redis({ port: server.port, username: 'router', password: 'PASSWORD' });
    await redis.info();
    await admin.call('ACL', 'LOG', 'RESET');
    await admin.config('RESETSTAT');
  });

  afterAll(async () => {
    redis.disconnect();
    admin.disconnect();
    await server.stop();
  });

  describeLedgerStore(
    'RedisStore as that user',
    ({ now }) => new RedisStore({ client: redis, keyPrefix: namespace(), now }),
    { sequences: 30 },
  );

  it('was refused nothing, and needs each command that it may use', async () => {
    expect(await admin.call('ACL', 'LOG')).toEqual([]);
    const used = [...(await admin.info('commandstats')).matchAll(/^cmdstat_([^:]+):/gm)].map(
      ([, name = '']) => name,
    );
    const allowed = [...RULES.matchAll(/\+(\S+)/g)].map(([, name = '']) => name);
    // TIME: unless a store has a clock of its own, as here. WAIT: where there are replicas.
    expect(allowed.filter((name) => !used.includes(name))).toEqual(['wait', 'time']);
  });
});
