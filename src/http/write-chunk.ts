import { OutgoingMessage, ServerResponse } from 'node:http';

import { isNode } from '../platform/node-version.ts';
import type { ClientResponse } from './exchange.ts';

/** Longer chunks are not copied. */
export const MAX_FRAMED_BYTES = 4096;

const CRLF = Buffer.from('\r\n');
/** Other runtimes have their own way to the socket. */
const canFrame = isNode(process.versions);

/** As it was when the router was loaded: a middleware that replaces it must not see frames. */
// oxlint-disable-next-line typescript/unbound-method -- it is compared only
const { write } = OutgoingMessage.prototype;

/**
 * Writes a part of an answer, as `response.write` does.
 *
 * Node makes four writes of a chunk of HTTP/1.1: its length, a line end, the bytes and another line end. A short one is copied into its frame here, and is one write.
 */
export function writeChunk(response: ClientResponse, chunk: Buffer): boolean {
  if (chunk.length === 0 || chunk.length > MAX_FRAMED_BYTES || !isFramedByNode(response))
    return response.write(chunk);
  response.chunkedEncoding = false;
  try {
    return response.write(framed(chunk));
  } finally {
    response.chunkedEncoding = true;
  }
}

/** Whether Node itself would frame the chunk, at once: what is written to a corked response waits for more. */
function isFramedByNode(response: ClientResponse): response is ServerResponse {
  return (
    canFrame &&
    response instanceof ServerResponse &&
    response.chunkedEncoding &&
    response.writableCorked === 0 &&
    response.write === write
  );
}

/** The chunk between its length and a line end (RFC 9112, section 7.1). */
function framed(chunk: Buffer): Buffer {
  const head = `${chunk.length.toString(16)}\r\n`;
  const end = head.length + chunk.length;
  const frame = Buffer.allocUnsafe(end + CRLF.length);
  frame.write(head, 'latin1');
  frame.set(chunk, head.length);
  frame.set(CRLF, end);
  return frame;
}
