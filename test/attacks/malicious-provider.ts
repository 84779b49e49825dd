import { once } from 'node:events';
import * as net from 'node:net';

/** A provider that says to each request what its script writes to the bare socket. */
export interface MaliciousProvider {
  readonly baseURL: string;
  script: (socket: net.Socket) => Promise<void> | void;
  close(): Promise<void>;
}

export async function startMaliciousProvider(): Promise<MaliciousProvider> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => sockets.delete(socket));
    socket.once('data', () => void provider.script(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const provider: MaliciousProvider = {
    baseURL: `http://127.0.0.1:${(server.address() as net.AddressInfo).port}/v1`,
    script: () => {},
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  return provider;
}

/** The head of an answer whose end is that of its connection. */
export function answerHead(...headers: readonly string[]): string {
  return ['HTTP/1.1 200 OK', 'connection: close', 'content-type: text/event-stream', ...headers, '', ''].join(
    '\r\n',
  );
}

/** The same for ever, or so many times. */
export function* repeated(piece: string | Buffer, times = Infinity): Generator<string | Buffer> {
  for (let i = 0; i < times; i++) yield piece;
}
