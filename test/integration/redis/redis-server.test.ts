import { Redis } from 'ioredis';
import { expect, it } from 'vitest';

import { startRedis } from '../../helpers/redis-server.ts';

it('tests have a real redis-server of 7.0 or later to themselves', async () => {
  const server = await startRedis();
  const redis = new Redis(server.url);
  expect(await redis.ping()).toBe('PONG');
  expect(Number(/redis_version:(\d+)/.exec(await redis.info('server'))?.[1])).toBeGreaterThanOrEqual(7);
  expect(await redis.dbsize()).toBe(0);
  redis.disconnect();
  await server.stop();
});
