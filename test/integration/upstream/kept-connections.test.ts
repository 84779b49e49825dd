import { once } from 'node:events';
import * as net from 'node:net';

import { afterEach, expect, it } from 'vitest';

import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { completionBody } from '../../helpers/provider.ts';

const ANSWER = completionBody();

/** A provider by bytes, which closes each connection when the second request on it begins. */
interface ClosingProvider {
  readonly server: net.Server;
  connections: number;
}

let provider: ClosingProvider;
let gateway: Gateway;

afterEach(async () => {
  await gateway.close();
  provider.server.close();
});

/** @param answers - whether a new connection has its first request answered, by its number */
async function start(answers: (connection: number) => boolean): Promise<void> {
  const server = net.createServer((socket) => {
    provider.connections += 1;
    const isAnswering = answers(provider.connections);
    let request = '';
    let isUsed = false;
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      if (isUsed || !isAnswering) {
        socket.resetAndDestroy();
        return;
      }
      request += chunk.toString('latin1');
      if (!request.endsWith('}')) return;
      isUsed = true;
      socket.write(
        `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${ANSWER.length}\r\n\r\n${ANSWER}`,
      );
    });
  });
  provider = { server, connections: 0 };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as net.AddressInfo;
  gateway = await startGateway({ provider: { baseURL: `http://127.0.0.1:${port}/v1` }, retries: false });
}

async function ask(): Promise<number> {
  const response = await gateway.post(QUESTION);
  await response.text();
  return response.status;
}

it('a request whose kept connection is closed as it is written is sent again on a new one, and charged once', async () => {
  await start(() => true);
  expect(await ask()).toBe(200);
  expect(await ask()).toBe(200);
  expect(provider.connections).toBe(2);
  await expect.poll(() => gateway.settled.length).toBe(2);
  const [first, second] = gateway.settled;
  expect(second?.charged).toBe(first?.charged);
  expect(second?.voided).toBe(false);
});

it('and only once: it costs nothing if the new connection is closed too', async () => {
  await start((connection) => connection === 1);
  expect(await ask()).toBe(200);
  expect(await ask()).toBe(502);
  expect(provider.connections).toBe(2);
  await expect.poll(() => gateway.settled.length).toBe(2);
  expect(gateway.settled[1]?.voided).toBe(true);
});
