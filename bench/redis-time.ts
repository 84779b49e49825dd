import type { Redis } from 'ioredis';

/** What these servers have used so far, all of them together. */
export async function cpuUsOf(servers: readonly Redis[]): Promise<number> {
  const each = await Promise.all(
    servers.map(async (redis) => {
      const info = await redis.info('cpu');
      const seconds = (name: string): number => Number(new RegExp(`^${name}:(.*)$`, 'm').exec(info)?.[1]);
      return (seconds('used_cpu_user') + seconds('used_cpu_sys')) * 1e6;
    }),
  );
  return each.reduce((sum, us) => sum + us, 0);
}

export async function pidOf(redis: Redis): Promise<number> {
  return Number(/^process_id:(\d+)/m.exec(await redis.info('server'))?.[1]);
}
