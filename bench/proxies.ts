import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { startChild } from './child.ts';
import { peerNamed, startPeer } from './peers.ts';
import type { Proxy, Surroundings } from './proxy.ts';

/** Proxies of ours and those that they are compared with, by name. */
export async function startProxy(
  name: string,
  surroundings: Surroundings,
  options: Readonly<Record<string, unknown>> = {},
): Promise<Proxy> {
  const peer = peerNamed(name);
  if (peer) return startPeer(peer, surroundings);
  const { upstreamPort, redisUrl, folder, core } = surroundings;
  const child = await startChild('proxy.ts', [name, String(upstreamPort), JSON.stringify(options)], {
    core,
    env: { REDIS_URL: redisUrl, SQLITE_FILE: join(folder, 'bench.db') },
  });
  return {
    name,
    port: child.port,
    path: '/v1/chat/completions',
    key: await child.ask<string>('key'),
    headers: {},
    isSlowAtFirst: true,
    cpuUs: () => child.cpuUs(),
    rssBytes: async () => (await child.memory()).rssBytes,
    node: child,
    stop: () => child.stop(),
  };
}

export const temporaryFolder = (): string => mkdtempSync(join(tmpdir(), 'ccr-bench-'));
