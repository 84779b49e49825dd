import { once } from 'node:events';
import * as net from 'node:net';

import { completionBody } from './provider.ts';

/** A provider that keeps the raw bytes of whatever it is sent, and answers each request with the same. */
export interface RawProvider {
  readonly baseURL: string;
  received: string;
  close(): void;
}

export async function startRawProvider(): Promise<RawProvider> {
  const body = completionBody();
  const answer = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const server = net.createServer((socket) => {
    socket.on('data', (chunk) => {
      provider.received += chunk.toString('latin1');
      if (provider.received.endsWith('}')) socket.write(answer);
    });
    socket.on('error', () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const provider: RawProvider = {
    baseURL: `http://127.0.0.1:${(server.address() as net.AddressInfo).port}/v1`,
    received: '',
    close: () => server.close(),
  };
  return provider;
}

/** Sends bytes as they are, and resolves with everything that comes back until the other side closes. */
export async function exchangeRaw(port: number, request: string): Promise<string> {
  const socket = net.connect(port, '127.0.0.1');
  socket.write(request, 'latin1');
  let answer = '';
  socket.on('data', (chunk) => (answer += chunk.toString('latin1')));
  // A server that refuses a request may reset the connection after its answer.
  socket.on('error', () => {});
  await new Promise((resolve) => socket.once('close', resolve));
  return answer;
}
