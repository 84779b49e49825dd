import { ServerResponse } from 'node:http';
import { Socket } from 'node:net';

import { Batch } from '../async/batch.ts';
import type { ClientResponse } from './exchange.ts';

/**
 * Has what is written to a response in this turn of the event loop leave at the end of the turn, in a row with what is written to others. Called before the
 * first write.
 *
 * Between two writes that follow each other, the kernel's code stays in the processor's caches, and a client that the first one woke up is awake.
 */
export function leaveTogether(response: ClientResponse): void {
  if (!(response instanceof ServerResponse)) return;
  const { socket } = response;
  // Other streams, which a server may be given as connections, may throw when they write.
  if (!(socket instanceof Socket) || socket.writableCorked > 0) return;
  socket.cork();
  corked.add(socket);
}

const corked = new Batch<Socket>((socket) => {
  socket.uncork();
});
