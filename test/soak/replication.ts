import { setTimeout as pause } from 'node:timers/promises';

import type { Redis } from 'ioredis';

/** From now on the replica lags: it is refused by its primary, and both go on. */
export async function holdReplication(replica: Redis): Promise<void> {
  await replica.config('SET', 'masterauth', 'not-the-password');
  await replica.call('CLIENT', 'KILL', 'TYPE', 'master');
}

export async function releaseReplication(node: Redis): Promise<void> {
  await node.config('SET', 'masterauth', '');
}

export async function isPrimary(node: Redis): Promise<boolean> {
  const [role] = (await node.call('ROLE')) as readonly [string];
  return role === 'master';
}

/** Whether it is a replica that has all that its primary has sent. */
export async function isLinkedReplica(node: Redis): Promise<boolean> {
  const [role, , , state] = (await node.call('ROLE')) as readonly [string, string, number, string];
  return role === 'slave' && state === 'connected';
}

/** Asks again and again until it is so, or so much time has passed; says which. */
export async function within(ms: number, isSo: () => Promise<boolean>): Promise<boolean> {
  const endsAt = Date.now() + ms;
  while (Date.now() < endsAt) {
    if (await isSo().catch(() => false)) return true;
    await pause(50);
  }
  return false;
}
