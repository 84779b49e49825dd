import { once } from 'node:events';
import * as http from 'node:http';
import * as https from 'node:https';
import * as net from 'node:net';

import type { Certificate } from './certificates.ts';

/** A proxy for `CONNECT`, which counts. */
export interface OutboundProxy {
  readonly port: number;
  /** The targets that tunnels were asked for, in order. */
  readonly asked: string[];
  /** Tunnels that stand. */
  openTunnels(): number;
  /** What it answers in place of opening tunnels: a status, or nothing at all. */
  refusal: number | 'silence' | undefined;
  close(): Promise<void>;
}

export interface OutboundProxyOptions {
  /** `user:password` that it asks for. */
  readonly credentials?: string;
  readonly certificate?: Certificate;
}

export async function startOutboundProxy({
  credentials,
  certificate,
}: OutboundProxyOptions = {}): Promise<OutboundProxy> {
  const server = certificate ? https.createServer(certificate) : http.createServer();
  const sockets = new Set<net.Socket>();
  const tunnels = new Set<net.Socket>();
  const wanted = credentials && `Basic ${Buffer.from(credentials).toString('base64')}`;
  server.on('connection', (socket: net.Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.on('connect', (request: http.IncomingMessage, client: net.Socket) => {
    client.on('error', () => {});
    proxy.asked.push(String(request.url));
    if (proxy.refusal === 'silence') return;
    const refusal = wanted && request.headers['proxy-authorization'] !== wanted ? 407 : proxy.refusal;
    if (refusal !== undefined) {
      client.end(`HTTP/1.1 ${refusal} No\r\ncontent-length: 13\r\n\r\n<secret-page>`);
      return;
    }
    const { hostname, port } = new URL(`http://${request.url}`);
    const target = net.connect(Number(port || 80), hostname.replace(/^\[|\]$/g, ''), () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n');
      client.pipe(target).pipe(client);
    });
    tunnels.add(target);
    client.once('close', () => target.destroy());
    target.on('error', () => client.destroy());
    target.once('close', () => {
      tunnels.delete(target);
      client.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const proxy: OutboundProxy = {
    port: (server.address() as net.AddressInfo).port,
    asked: [],
    openTunnels: () => tunnels.size,
    refusal: undefined,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  return proxy;
}
