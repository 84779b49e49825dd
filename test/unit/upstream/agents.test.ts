import { once } from 'node:events';
import * as http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

import { expect, it } from 'vitest';

import { ProviderAgent } from '../../../src/upstream/transport/agents.ts';

/** A request by this agent: its socket, while it waits for its answer, and how to have it answered. */
async function ask(agent: ProviderAgent, port: number, server: http.Server) {
  const request = http.request({ agent, port, host: '127.0.0.1' });
  const asked = once(server, 'request');
  request.end();
  const [, response] = (await asked) as [unknown, http.ServerResponse];
  return {
    request,
    timeout: request.socket?.timeout ?? 0,
    answer: async (headers: http.OutgoingHttpHeaders): Promise<void> => {
      const answered = once(request, 'response');
      response.writeHead(200, headers).end('{}');
      const [answer] = (await answered) as [http.IncomingMessage];
      const free = once(agent, 'free');
      await answer.resume().toArray();
      await free;
    },
  };
}

it('a connection has a timeout while it is free, by what its provider announced, and none during a request', async () => {
  // Without a time of its own, it announces none.
  const server = http.createServer({ keepAliveTimeout: 0 });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const agent = new ProviderAgent({
    origin: new URL(`http://127.0.0.1:${port}`),
    proxy: undefined,
    tls: undefined,
    localAddress: undefined,
    lookup: undefined,
    maxConnections: Infinity,
    keepWarm: 0,
    owner: undefined,
    connectMs: 1000,
  });
  const sockets = new Set<Socket | null>();
  const timeouts: (number | undefined)[] = [];
  for (const headers of [{}, { 'keep-alive': 'timeout=5' }, {}]) {
    const { request, timeout, answer } = await ask(agent, port, server);
    const { socket } = request;
    sockets.add(socket);
    timeouts.push(timeout);
    await answer(headers);
    timeouts.push(socket?.timeout);
  }
  expect(sockets.size).toBe(1);
  expect(timeouts).toEqual([0, 30_000, 0, 4000, 0, 30_000]);
  agent.destroy();
  server.close();
});
