import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { Redis } from 'ioredis';

import { until } from './redis-cluster.ts';
import { type RedisServer, startRedis, startRedisWithConfig } from './redis-server.ts';

/** A real sentinel of a test's own, with a primary and a replica to watch. */
export interface SentinelSetup {
  readonly url: string;
  readonly primary: RedisServer;
  readonly replica: RedisServer;
  /** Makes the replica, or the server that is given, the primary, though the old one lives, and resolves when it is. */
  failOver(to?: RedisServer): Promise<void>;
  /** Resolves when the old primary is a replica, and the sentinel knows that it could take over. */
  demoted(): Promise<void>;
  stop(): Promise<void>;
}

/** @param options.password - for the servers, not the sentinel */
export async function startSentinel({ password = '' } = {}): Promise<SentinelSetup> {
  const login = password === '' ? [] : ['--requirepass', password, '--masterauth', password];
  const common = ['--repl-diskless-sync-delay', '0', ...login];
  const primary = await startRedis(common);
  const replica = await startRedis([...common, '--replicaof', '127.0.0.1', String(primary.port)]);
  const redis = new Redis(primary.port, password === '' ? {} : { password });
  await until(async () => /slave0:.*state=online/.test(await redis.info('replication')));
  redis.disconnect();

  const sentinel = await startRedisWithConfig((directory) => {
    const file = join(directory, 'sentinel.conf');
    const lines = [
      `sentinel monitor main 127.0.0.1 ${primary.port} 1`,
      'sentinel down-after-milliseconds main 1000',
      'sentinel failover-timeout main 5000',
      ...(password === '' ? [] : [`sentinel auth-pass main ${password}`]),
    ];
    writeFileSync(file, `${lines.join('\n')}\n`);
    return [file, '--sentinel'];
  });
  const watcher = new Redis(sentinel.port);
  // It looks every 10 seconds, and takes as long to make a replica of an old primary.
  await watcher.call('SENTINEL', 'DEBUG', 'INFO-PERIOD', '500', 'PUBLISH-PERIOD', '500');
  await until(async () => /slaves=1/.test(String(await watcher.call('INFO', 'sentinel'))));
  return {
    url: `redis+sentinel://${password === '' ? '' : `:${password}@`}127.0.0.1:${sentinel.port}/main`,
    primary,
    replica,
    failOver: async (to = replica) => {
      // At first it hasn't heard enough of the replica, and one that it began may be given up. One that is
      // ordered when the last has just ended would lead back.
      await until(async () => {
        const state = (await watcher.call('SENTINEL', 'MASTER', 'main')) as readonly string[];
        const field = (name: string): string => state[state.indexOf(name) + 1] ?? '';
        if (Number(field('port')) === to.port) return true;
        if (!field('flags').includes('failover_in_progress')) {
          await watcher.call('SENTINEL', 'FAILOVER', 'main').catch(() => {});
        }
        return false;
      });
    },
    demoted: () =>
      until(async () => {
        const replicas = (await watcher.call('SENTINEL', 'REPLICAS', 'main')) as readonly string[][];
        const [state = []] = replicas;
        const field = (name: string): string | undefined => state[state.indexOf(name) + 1];
        return (
          field('flags') === 'slave' &&
          field('role-reported') === 'slave' &&
          field('master-link-status') === 'ok'
        );
      }),
    stop: async () => {
      watcher.disconnect();
      await Promise.all([sentinel, primary, replica].map((server) => server.kill()));
    },
  };
}
