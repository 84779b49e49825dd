import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  createSecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type SecureServerOptions,
} from 'node:http2';
import type { Socket } from 'node:net';

import { portOf } from './parent.ts';
import { event } from './provider-answers.ts';

/** As many streams on one connection as many providers allow. */
const STREAMS_A_CONNECTION = 100;
const INTERVAL_MS = 2000;

/** A provider that offers HTTP/2 and HTTP/1.1 by TLS, and answers every request with a stream that ends with its reader. */
export async function startHttp2Provider(
  certificate: SecureServerOptions,
): Promise<{ readonly port: number; connections(): number }> {
  const open = new Set<Socket>();
  const settings = { maxConcurrentStreams: STREAMS_A_CONNECTION };
  const server = createSecureServer({ ...certificate, allowHTTP1: true, settings }, answer);
  server.on('secureConnection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  server.on('sessionError', () => {});
  await once(server.listen(0, '127.0.0.1', 8192), 'listening');
  return { port: portOf(server), connections: () => open.size };
}

function answer(
  request: IncomingMessage | Http2ServerRequest,
  response: ServerResponse | Http2ServerResponse,
): void {
  // Both classes have these, but TypeScript can't call a method of their union.
  const stream: Pick<NodeJS.WritableStream, 'write' | 'on'> = response;
  request.resume();
  response.statusCode = 200;
  response.setHeader('content-type', 'text/event-stream');
  let sent = 0;
  const next = (): boolean => stream.write(event(sent++));
  next();
  const timer = setInterval(next, INTERVAL_MS);
  stream.on('error', () => {});
  stream.on('close', () => clearInterval(timer));
}
