import { once } from 'node:events';
import * as net from 'node:net';
import * as tls from 'node:tls';

import { afterEach, describe, expect, it } from 'vitest';

import { createAuthority } from '../../helpers/certificates.ts';
import {
  type Gateway,
  type GatewayOptions,
  QUESTION,
  startGateway,
  untilStill,
} from '../../helpers/gateway.ts';
import { completionBody, text } from '../../helpers/provider.ts';
import { TRANSPORT } from '../../helpers/transport.ts';

/** A server by bytes. */
interface ByteServer {
  readonly port: number;
  /** Connections that there were. */
  readonly connections: () => number;
}

const closing: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

async function startServer(
  onConnection: (socket: net.Socket, connection: number) => void,
): Promise<ByteServer> {
  const sockets = new Set<net.Socket>();
  let connections = 0;
  const server = net.createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => sockets.delete(socket));
    onConnection(socket, connections);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    port: (server.address() as net.AddressInfo).port,
    connections: () => connections,
  };
}

async function startBefore(
  { port }: Pick<ByteServer, 'port'>,
  options: GatewayOptions['provider'] = {},
  rest: GatewayOptions = {},
): Promise<Gateway> {
  const provider = { baseURL: `http://127.0.0.1:${port}/v1`, ...options };
  const gateway = await startGateway({ provider, retries: false, ...rest });
  closing.push(() => gateway.close());
  return gateway;
}

async function ask(gateway: Gateway, body: unknown = QUESTION): Promise<number> {
  const response = await gateway.post(body);
  await response.text();
  return response.status;
}

/** Calls for each request that has come whole. */
function onRequests(socket: net.Socket, onRequest: () => void): void {
  let request = '';
  socket.on('data', (chunk) => {
    request += chunk.toString('latin1');
    if (!request.endsWith('}')) return;
    request = '';
    onRequest();
  });
}

const BODY = completionBody();

function answer(body = BODY, status = 200, header = ''): string {
  return `HTTP/1.1 ${status} Status\r\ncontent-type: application/json\r\n${header}content-length: ${body.length}\r\n\r\n${body}`;
}

it('five kept connections that are all stale cost the next request nothing', async () => {
  const held: (() => void)[] = [];
  let isStale = false;
  const provider = await startServer((socket, connection) => {
    const isOld = connection <= 5;
    socket.on('data', () => {
      if (isStale && isOld) socket.resetAndDestroy();
    });
    onRequests(socket, () => {
      if (isOld) held.push(() => socket.write(answer()));
      else socket.write(answer());
    });
  });
  const gateway = await startBefore(provider);
  const first = Array.from({ length: 5 }, () => ask(gateway));
  await expect.poll(() => held.length).toBe(5);
  for (const release of held) release();
  expect(await Promise.all(first)).toEqual([200, 200, 200, 200, 200]);
  isStale = true;
  expect(await ask(gateway)).toBe(200);
  expect(provider.connections()).toBe(6);
});

it('a tunnel that has bytes before the request is not opened again and again', async () => {
  const proxy = await startServer((socket) => {
    socket.once('data', () =>
      socket.write('HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\n\r\n'),
    );
  });
  const gateway = await startBefore(
    proxy,
    { baseURL: 'http://provider.invalid/v1', proxy: `http://127.0.0.1:${proxy.port}`, maxConnections: 4 },
    { timeouts: { connectMs: 1000 } },
  );
  expect(await ask(gateway)).toBe(TRANSPORT === 'undici' ? 502 : 503);
  const opened = proxy.connections();
  expect(opened).toBeLessThanOrEqual(2);
  expect(await untilStill(gateway, proxy.connections)).toBe(opened);
  await gateway.router.close();
  expect(proxy.connections()).toBe(opened);
});

it('a request that has waited for its connection, and finds it stale, is sent again', async () => {
  const provider = await startServer((socket, connection) => {
    let requests = 0;
    onRequests(socket, () => {
      requests += 1;
      if (connection > 1) socket.write(answer());
      // Longer than a connection may take to die that was being closed.
      else if (requests === 1) setTimeout(() => socket.write(answer()), 1100);
      else socket.resetAndDestroy();
    });
  });
  const gateway = await startBefore(provider, { maxConnections: 1 });
  expect(await Promise.all([ask(gateway), ask(gateway)])).toEqual([200, 200]);
  expect(provider.connections()).toBe(2);
});

it.each([
  ['at once, was stale: the request is sent again', 0, 200, 2],
  ['later than a round trip, was in use: the request is not sent again', 700, 502, 1],
])('a kept connection that dies %s', async (_what, ms, status, connections) => {
  const provider = await startServer((socket, connection) => {
    let requests = 0;
    onRequests(socket, () => {
      requests += 1;
      if (connection > 1 || requests === 1) socket.write(answer());
      else setTimeout(() => socket.resetAndDestroy(), ms);
    });
  });
  const gateway = await startBefore(provider);
  expect(await ask(gateway)).toBe(200);
  expect(await ask(gateway)).toBe(status);
  expect(provider.connections()).toBe(connections);
});

it('a request on a new connection to a provider with https: is sent once, also where that breaks', async () => {
  const authority = createAuthority();
  let requests = 0;
  // No ALPN: it has HTTP/1.1 alone.
  const server = tls.createServer(authority.issue('DNS:localhost'), (socket) => {
    socket.on('error', () => {});
    socket.once('data', () => {
      requests += 1;
      socket.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => server.close());
  const { port } = server.address() as net.AddressInfo;
  const gateway = await startBefore(
    { port },
    { baseURL: `https://localhost:${port}/v1`, tls: { ca: authority.ca } },
  );
  expect(await ask(gateway)).toBe(502);
  expect(requests).toBe(1);
});

it('a connection that a hung outbound proxy does not open is not reported as a wait for one of maxConnections', async () => {
  const provider = await startServer((socket) => {
    onRequests(socket, () => {});
  });
  const proxy = await startServer((socket, connection) => {
    if (connection > 1) return;
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      const onwards = net.connect(provider.port, '127.0.0.1').on('error', () => {});
      socket.pipe(onwards).pipe(socket);
    });
  });
  const gateway = await startBefore(
    provider,
    { proxy: `http://127.0.0.1:${proxy.port}`, maxConnections: 2 },
    { timeouts: { connectMs: 400, firstByteMs: 60_000 } },
  );
  const leaving = new AbortController();
  const first = gateway.post(QUESTION, { signal: leaving.signal });
  await expect.poll(provider.connections).toBe(1);
  const second = ask(gateway);
  await expect.poll(proxy.connections).toBe(2);
  expect(await Promise.all([second, ask(gateway)])).toEqual([504, 504]);
  const causes = gateway.errors.map(({ cause }) => cause instanceof Error && cause.message);
  expect(causes).toEqual([false, expect.stringContaining('all maxConnections (2) are in use')]);
  leaving.abort();
  await first.catch(() => {});
});

it('a provider that closes each connection after its answer never has more requests at once than maxConnections', async () => {
  let running = 0;
  let most = 0;
  const provider = await startServer((socket) => {
    onRequests(socket, () => {
      running += 1;
      most = Math.max(most, running);
      setTimeout(() => {
        running -= 1;
        socket.end(answer(BODY, 200, 'connection: close\r\n'));
      }, 10);
    });
  });
  const gateway = await startBefore(provider, { maxConnections: 2 }, { timeouts: { connectMs: 20_000 } });
  const answers = Array.from({ length: 12 }, () => ask(gateway));
  expect(await Promise.all(answers)).toEqual(Array(12).fill(200));
  expect(most).toBe(2);
});

it('a connection whose request was answered before it was sent whole is not used again', async () => {
  const error = '{"error":{"message":"too long"}}';
  const provider = await startServer((socket, connection) => {
    if (connection > 1) {
      onRequests(socket, () => socket.write(answer()));
      return;
    }
    socket.once('data', () => {
      socket.pause();
      socket.write(answer(error, 413));
    });
  });
  const gateway = await startBefore(
    provider,
    { maxConnections: 1 },
    { timeouts: { connectMs: 2000, firstByteMs: 2000 } },
  );
  expect(await ask(gateway, { ...QUESTION, metadata: { text: 'y'.repeat(8_000_000) } })).toBe(413);
  expect(await ask(gateway)).toBe(200);
  expect(provider.connections()).toBe(2);
});

describe('an answer without a length that ends by a reset', () => {
  async function startCut(type: string, body: string): Promise<{ gateway: Gateway; reset: () => void }> {
    const sockets: net.Socket[] = [];
    const provider = await startServer((socket) => {
      sockets.push(socket);
      onRequests(socket, () => {
        socket.write(`HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\n\r\n${body}`);
      });
    });
    return { gateway: await startBefore(provider), reset: () => sockets[0]?.resetAndDestroy() };
  }

  it('is no complete answer, even if it could be one', async () => {
    const { gateway, reset } = await startCut('application/json', BODY);
    const response = await gateway.post(QUESTION);
    reset();
    await expect(response.text()).rejects.toThrow('terminated');
    await expect.poll(() => gateway.settled).toMatchObject([{ ending: 'upstream_cut' }]);
  });

  it('is a stream with an error at its end', async () => {
    const { gateway, reset } = await startCut('text/event-stream', text('half'));
    const response = await gateway.post({ ...QUESTION, stream: true });
    reset();
    expect(await response.text()).toContain('"code":"upstream_cut"');
    await expect.poll(() => gateway.settled).toMatchObject([{ ending: 'upstream_cut' }]);
  });
});
