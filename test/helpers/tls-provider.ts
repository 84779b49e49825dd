import { once } from 'node:events';
import * as https from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { TlsOptions, TLSSocket } from 'node:tls';

import { answerJson, completionBody } from './provider.ts';

/** A provider with `https:`, which counts its connections. */
export interface TlsProvider {
  readonly baseURL: string;
  readonly port: number;
  /** Connections in all, and how many of them resumed a session. */
  connections(): number;
  openConnections(): number;
  resumed(): number;
  /** The common names of the client certificates, by connection. */
  readonly clients: (string | undefined)[];
  closeConnections(): void;
  close(): Promise<void>;
}

export async function startTlsProvider(options: TlsOptions): Promise<TlsProvider> {
  const answer = answerJson(completionBody());
  const server = https.createServer(options, (request, response) => {
    request.resume();
    if (request.url === '/v1/models') response.end('{"data":[{"id":"listed"}]}');
    else void answer(response, undefined as never);
  });
  const clients: (string | undefined)[] = [];
  const open = new Set<Socket>();
  let resumed = 0;
  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  server.on('secureConnection', (socket: TLSSocket) => {
    clients.push(String(socket.getPeerCertificate().subject?.CN));
    if (socket.isSessionReused()) resumed += 1;
  });
  const closeConnections = (): void => {
    for (const socket of open) socket.destroy();
  };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    baseURL: `https://localhost:${port}/v1`,
    port,
    connections: () => clients.length,
    openConnections: () => open.size,
    closeConnections,
    resumed: () => resumed,
    clients,
    close: async () => {
      closeConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
