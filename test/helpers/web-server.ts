import { once } from 'node:events';
import * as http from 'node:http';
import { Readable } from 'node:stream';

import type { WebHandler } from '../../src/index.ts';

/**
 * A server that gives each request to a Web handler, the way Next.js does: the signal fires when the
 * client leaves, and the body is piped with back-pressure.
 */
export function createWebServer(handler: WebHandler): http.Server {
  return http.createServer((incoming, outgoing) => {
    void serve(handler, incoming, outgoing);
  });
}

async function serve(
  handler: WebHandler,
  incoming: http.IncomingMessage,
  outgoing: http.ServerResponse,
): Promise<void> {
  const controller = new AbortController();
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) controller.abort(new Error('The client left'));
  });
  const { method = 'GET', url = '/' } = incoming;
  const headers = new Headers();
  for (let i = 0; i < incoming.rawHeaders.length; i += 2) {
    headers.append(incoming.rawHeaders[i] as string, incoming.rawHeaders[i + 1] as string);
  }
  const hasBody = method !== 'GET' && method !== 'HEAD';
  const response = await handler(
    new Request(`http://${incoming.headers.host}${url}`, {
      method,
      headers,
      signal: controller.signal,
      ...(hasBody && { body: Readable.toWeb(incoming) as ReadableStream, duplex: 'half' }),
    }),
  );
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  if (!response.body) {
    outgoing.end();
    return;
  }
  outgoing.flushHeaders();
  const reader = response.body.getReader();
  controller.signal.addEventListener('abort', () => void reader.cancel().catch(() => {}));
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      // `Writable.toWeb` of a response knows no back-pressure on Node 22.
      if (!outgoing.write(next.value)) await once(outgoing, 'drain', { signal: controller.signal });
    }
    outgoing.end();
  } catch {
    outgoing.destroy();
  }
}
