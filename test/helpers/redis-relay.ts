import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface Relay {
  readonly port: number;
  /** After `more` replies, replies are lost until the connection is. Resolves with the first that is. */
  swallow(more?: number): Promise<void>;
  /** From now on nothing passes on the connections that there are, and nobody is told. */
  silence(): void;
  cut(): void;
  close(): Promise<void>;
}

/**
 * Stands between a client and Redis.
 *
 * @param delayMs - how much later its answers come
 */
export async function startRelay(port: number, delayMs = 0): Promise<Relay> {
  const sockets = new Set<Socket>();
  const silent = new WeakSet<Socket>();
  let swallowed: (() => void) | undefined;
  let untouched = 0;
  const relay = createServer((client) => {
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
    client.on('data', (bytes) => {
      if (!silent.has(client)) upstream.write(bytes);
    });
    upstream.on('data', (bytes) => {
      if (delayMs > 0) setTimeout(() => client.write(bytes), delayMs);
      else if (!swallowed || untouched > 0) client.write(bytes);
      else swallowed();
      untouched -= 1;
    });
  }).listen(0, '127.0.0.1');
  await once(relay, 'listening');
  const cut = (): void => {
    swallowed = undefined;
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (relay.address() as AddressInfo).port,
    swallow: (more = 0) => {
      untouched = more;
      return new Promise((resolve) => (swallowed = resolve));
    },
    silence: () => {
      for (const socket of sockets) silent.add(socket);
    },
    cut,
    close: async () => {
      relay.close();
      cut();
      await once(relay, 'close');
    },
  };
}
