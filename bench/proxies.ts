import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { startChild } from './child.ts';
import { peerNamed, startPeer } from './peers.ts';
import type { Proxy, Context } from './proxy.ts';

/** Starts a router or one of the proxies that it is compared with, by name. */
export async function startProxy(
  name: string,
  context: Context,
  options: Readonly<Record<string, unknown>> = {},
): Promise<Proxy> {
  const peer = peerNamed(name);
  if (peer) return startPeer(peer, context);
  const { upstreamPort, caFile, redisUrl, folder, core, nodeFlags } = context;
  const origin = caFile ? `https://localhost:${upstreamPort}` : `http://127.0.0.1:${upstreamPort}`;
  const child = await startChild('proxy.ts', [name, origin, JSON.stringify(options)], {
    core,
    nodeFlags,
    env: {
      REDIS_URL: redisUrl,
      SQLITE_FILE: join(folder, 'bench.db'),
      ...(caFile && { NODE_EXTRA_CA_CERTS: caFile }),
    },
  });
  const [key = ''] = await child.ask<readonly string[]>('keys');
  return {
    name,
    port: child.port,
    path: '/v1/chat/completions',
    key,
    headers: {},
    isSlowAtFirst: true,
    cpuUs: () => child.cpuUs(),
    rssBytes: async () => (await child.memory()).rssBytes,
    node: child,
    stop: () => child.stop(),
  };
}

export const temporaryFolder = (): string => mkdtempSync(join(tmpdir(), 'ccr-bench-'));
