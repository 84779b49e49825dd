import { OutgoingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';

import { isNode } from '../platform/node-version.ts';
import type { ClientResponse } from './exchange.ts';

/** Longer chunks are not copied. */
export const MAX_FRAMED_BYTES = 4096;

const CRLF = Buffer.from('\r\n');

/** As it was when the router was loaded. */
// oxlint-disable-next-line typescript/unbound-method -- it is compared only
const { write } = OutgoingMessage.prototype;

/** Other runtimes have their own way to the socket. An agent that was loaded first may have wrapped `write`, which its text tells. */
const canFrame = isNode(process.versions) && String(write).includes('write_(this, chunk');

/**
 * Writes a part of an answer, as `response.write` does.
 *
 * Node passes a chunk of HTTP/1.1 to the socket in four parts: its length, a line end, its bytes and another line end. A short one is copied into its frame here, and is
 * one part. Node passes bytes on as they are while `chunkedEncoding` is false.
 */
export function writeChunk(response: ClientResponse, chunk: Buffer): boolean {
  if (chunk.length === 0 || chunk.length > MAX_FRAMED_BYTES || !isWrittenByNode(response))
    return response.write(chunk);
  response.chunkedEncoding = false;
  try {
    return response.write(framed(chunk));
  } finally {
    response.chunkedEncoding = true;
  }
}

/**
 * Whether Node would frame the chunk and pass it to a socket of its own at once. Not if the app has corked the response or replaced its `write`; nor if it has
 * no socket yet, behind another on the same connection; nor if that is an object that looks for Node's four parts.
 */
function isWrittenByNode(response: ClientResponse): response is ServerResponse {
  return (
    canFrame &&
    response instanceof ServerResponse &&
    response.chunkedEncoding &&
    response.writableCorked === 0 &&
    response.write === write &&
    response.socket instanceof Socket
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
