import { Redis } from 'ioredis';
import { beforeAll } from 'vitest';

import { type RedisServer, startRedis } from './redis-server.ts';

export interface OwnRedis {
  readonly server: RedisServer;
  /** Its client. */
  readonly redis: Redis;
}

/** Opens a redis-server for the tests of a file, and closes it after them: `useRedis((own) => ({ server, redis } = own));` */
export function useRedis(opened: (own: OwnRedis) => void): void {
  beforeAll(async () => {
    const server = await startRedis();
    const redis = new Redis(server.url);
    opened({ server, redis });
    return async () => {
      redis.disconnect();
      await server.stop();
    };
  });
}
