import { Redis } from 'ioredis';

import { type RedisServer, startRedis } from './redis-server.ts';

/** A real Redis that can be taken back to what it had before, without a connection being closed. */
export interface RolledBackRedis {
  readonly server: RedisServer;
  /** A client of the test's own. */
  readonly redis: Redis;
  /** Remembers what it has now. */
  mark(): Promise<void>;
  /** Has what it had at the mark, and nothing else. */
  rollBack(): Promise<void>;
  close(): Promise<void>;
}

export async function startRolledBackRedis(): Promise<RolledBackRedis> {
  const server = await startRedis();
  const redis = new Redis(server.port);
  let marked: readonly (readonly [key: string, content: Buffer])[] = [];
  return {
    server,
    redis,
    mark: async () => {
      const keys = await redis.keys('*');
      marked = await Promise.all(
        keys.map(async (key) => [key, (await redis.dumpBuffer(key)) ?? Buffer.alloc(0)] as const),
      );
    },
    rollBack: async () => {
      const transaction = redis.multi().flushall();
      for (const [key, content] of marked) transaction.restore(key, 0, content);
      await transaction.exec();
    },
    close: async () => {
      redis.disconnect();
      await server.kill();
    },
  };
}
