import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

import { Redis } from 'ioredis';

import { type RedisServer, startRedis } from './redis-server.ts';

/** A primary and its replica, behind one address that leads to whoever is primary. */
export interface ReplicatedRedis {
  readonly url: string;
  readonly replicaUrl: string;
  /** From now on nothing reaches the replica. */
  stopReplicating(): void;
  /** Kills the primary and promotes the replica, to which nobody is led yet. */
  promote(): Promise<void>;
  /** Leads everybody to the replica. */
  redirect(): void;
  close(): Promise<void>;
}

export async function startReplicatedRedis(): Promise<ReplicatedRedis> {
  const options = ['--repl-diskless-sync-delay', '0'];
  const [primary, replica] = await Promise.all([startRedis(options), startRedis(options)]);
  const link = await startDoor(primary);
  const front = await startDoor(primary);
  const admin = new Redis(replica.port);
  admin.on('error', () => {});
  await admin.replicaof('127.0.0.1', link.port);
  while (!(await admin.info('replication')).includes('master_link_status:up')) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return {
    url: `redis://127.0.0.1:${front.port}`,
    replicaUrl: replica.url,
    stopReplicating: () => link.silence(),
    promote: async () => {
      front.leadNowhere();
      await primary.kill();
      await admin.replicaof('NO', 'ONE');
    },
    redirect: () => front.leadTo(replica),
    close: async () => {
      admin.disconnect();
      await Promise.all([link.close(), front.close(), primary.kill(), replica.kill()]);
    },
  };
}

async function startDoor(server: RedisServer) {
  const sockets = new Set<Socket>();
  let port: number | undefined = server.port;
  let silent = false;
  const door = createServer((client) => {
    if (port === undefined) {
      client.destroy();
      return;
    }
    const upstream = connect(port, '127.0.0.1');
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on('data', (bytes) => upstream.write(bytes));
    upstream.on('data', (bytes) => {
      if (!silent) client.write(bytes);
    });
  }).listen(0, '127.0.0.1');
  await once(door, 'listening');
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (door.address() as AddressInfo).port,
    /** Nothing that the server says gets through any more. */
    silence: () => {
      silent = true;
    },
    leadNowhere: () => {
      port = undefined;
      cut();
    },
    leadTo: (other: RedisServer) => {
      port = other.port;
    },
    close: async () => {
      door.close();
      cut();
      await once(door, 'close');
    },
  };
}
