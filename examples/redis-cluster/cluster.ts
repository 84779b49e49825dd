import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';

export interface Cluster {
  readonly url: string;
  stop(): Promise<void>;
}

const SLOTS = 16_384;
const NODES = 3;

/** Three redis-servers of this machine as one cluster, with nothing on disk that outlives them. */
export async function startCluster(): Promise<Cluster> {
  const nodes = await Promise.all(Array.from({ length: NODES }, startNode));
  for (const [i, { client }] of nodes.entries()) {
    const [from, to] = [Math.ceil((i * SLOTS) / NODES), Math.ceil(((i + 1) * SLOTS) / NODES) - 1];
    await client.call('CLUSTER', 'ADDSLOTSRANGE', from, to);
    await client.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
    for (const { port, busPort } of nodes) await client.call('CLUSTER', 'MEET', '127.0.0.1', port, busPort);
  }
  for (const { client } of nodes) {
    while (!/cluster_state:ok/.test(String(await client.call('CLUSTER', 'INFO')))) await pause(50);
    client.disconnect();
  }
  return {
    url: `redis+cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
    stop: async () => {
      await Promise.all(nodes.map((node) => node.stop()));
    },
  };
}

async function startNode(): Promise<{ port: number; busPort: number; client: Redis; stop(): Promise<void> }> {
  const [port, busPort] = [await freePort(), await freePort()];
  const folder = mkdtempSync(join(tmpdir(), 'redis-cluster-'));
  const options = `--port ${port} --cluster-port ${busPort} --bind 127.0.0.1 --dir ${folder} --appendonly no`;
  // Not ended by a Ctrl-C in this terminal: the apps still post their charges then.
  const server = spawn('redis-server', [...options.split(' '), '--save', '', '--cluster-enabled', 'yes'], {
    detached: true,
    stdio: 'ignore',
  });
  const exited = once(server, 'exit');
  process.once('exit', () => {
    server.kill();
    rmSync(folder, { recursive: true, force: true });
  });
  const client = new Redis(port, '127.0.0.1', { retryStrategy: () => 50, maxRetriesPerRequest: null });
  client.on('error', () => {}); // until it listens
  await Promise.race([
    client.ping(),
    exited.then(() => {
      throw new Error('redis-server has ended: this example needs version 7 or later.');
    }),
  ]);
  return {
    port,
    busPort,
    client,
    stop: async () => {
      server.kill();
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('No port is free.');
  return address.port;
}
