import type { Readable } from 'node:stream';

/**
 * Reads a body that has arrived completely, usually in one packet with its head, without listeners.
 *
 * @param length - the `content-length` header
 * @param maxBytes - larger bodies are not read
 * @returns undefined, with nothing read, if the body is incomplete or its length unknown
 */
export function readBuffered(
  body: Readable,
  length: string | undefined,
  maxBytes: number = Infinity,
): Buffer | undefined {
  if (length === undefined || body.readableLength === 0 || body.readableLength !== Number(length)) {
    return undefined;
  }
  if (
    body.readableLength > maxBytes ||
    body.destroyed ||
    body.readableObjectMode ||
    body.readableEncoding !== null
  )
    return undefined;
  const bytes: unknown = body.read();
  // The connection is only released once the end was read, too.
  body.resume();
  return Buffer.isBuffer(bytes) ? bytes : undefined;
}
