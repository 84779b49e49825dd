import type { Readable } from 'node:stream';

/**
 * Takes a body that has come whole, mostly in one packet with its head: nobody has to listen for it.
 *
 * @param length - what its head says that it has, in bytes
 * @param maxBytes - how many bytes are taken at once
 * @returns undefined, with nothing taken, where some of it is still to come, or nobody knows
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
  // Its connection is free again once its end was read, too.
  body.resume();
  return Buffer.isBuffer(bytes) ? bytes : undefined;
}
