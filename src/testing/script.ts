import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';

import type { ReceivedRequest } from './received-request.ts';

/**
 * Handles a request: answers it, or doesn't. May be asynchronous.
 *
 * Combine the scripts of this module with `sequence`, or write your own on Node's `ServerResponse`.
 */
export type Script = (response: ServerResponse, request: ReceivedRequest) => unknown;

/** A part of a sequence: bytes of the body, or another script. */
export type Part = string | Uint8Array | Script;

/**
 * Runs parts one after another for one request. Each part of bytes is one write, and a part starts only when the previous
 * one has finished. Stops when the client disconnects.
 *
 * It doesn't end the answer by itself: see `end`.
 */
export function sequence(...parts: readonly Part[]): Script {
  return async (response, request) => {
    for (const part of parts) {
      if (response.destroyed) return;
      if (typeof part === 'function') await part(response, request);
      else await writeBytes(response, part);
    }
  };
}

/** The same script for several requests, e.g. `provider.answer(...repeat(3, error(503)), completion())`. */
export function repeat(times: number, script: Script): Script[] {
  return Array.from({ length: times }, () => script);
}

/** Sends status and headers at once, before any body. */
export function head(status: number, headers: OutgoingHttpHeaders = {}): Script {
  return (response) => {
    response.writeHead(status, headers);
    response.flushHeaders();
  };
}

/** A whole answer; an object is sent as JSON. */
export function respond(
  status: number,
  body: string | Uint8Array | object = '',
  headers: OutgoingHttpHeaders = {},
): Script {
  const bytes = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body);
  const type = bytes === body ? {} : { 'content-type': 'application/json' };
  return (response) => {
    response.writeHead(status, { ...type, ...headers }).end(bytes);
  };
}

/** A stream of server-sent events: the head at once, then the parts, then the end. */
export function stream(...parts: readonly Part[]): Script {
  return sequence(head(200, { 'content-type': 'text/event-stream' }), ...parts, end);
}

/** Ends the answer. */
export const end: Script = (response) => {
  response.end();
};

/** Waits `ms`, or until the client disconnects. */
export function pause(ms: number): Script {
  return (response) =>
    new Promise<void>((resolve) => {
      const over = (): void => {
        clearTimeout(timer);
        response.off('close', over);
        resolve();
      };
      const timer = setTimeout(over, ms);
      response.once('close', over);
    });
}

/** Sends nothing more, until the client disconnects. */
export const hang: Script = (response) =>
  new Promise<void>((resolve) => {
    response.once('close', resolve);
  });

/** Resets the connection (RST); the client may lose bytes in flight. */
export const reset: Script = (response) => {
  response.socket?.resetAndDestroy();
};

/** Closes the connection (FIN), even in the middle of the answer. */
export const hangUp: Script = (response) => {
  response.socket?.end();
};

/** Writes raw bytes to the connection, in place of HTTP or in the middle of it. */
export function raw(bytes: string | Uint8Array): Script {
  return (response) =>
    new Promise<void>((resolve) => {
      if (response.socket) response.socket.write(bytes, () => resolve());
      else resolve();
    });
}

/** Sends a body a few bytes at a time. */
export function drip(
  body: string | Uint8Array,
  { bytes = 1, everyMs = 1 }: { readonly bytes?: number; readonly everyMs?: number } = {},
): Script {
  const all = Buffer.from(body);
  const slices = Array.from({ length: Math.ceil(all.length / bytes) }, (_, n) =>
    all.subarray(n * bytes, (n + 1) * bytes),
  );
  return sequence(...slices.flatMap((slice) => [slice, pause(everyMs)]));
}

/** Sends the `content-length` of the whole body, its first `bytes` bytes, and closes the connection. */
export function truncated(body: string | object, bytes: number): Script {
  const whole = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const headers = { 'content-type': 'application/json', 'content-length': whole.length };
  return sequence(head(200, headers), whole.subarray(0, bytes), hangUp);
}

/** Resolves once the bytes are written to the socket, so it waits for a slow reader. */
function writeBytes(response: ServerResponse, bytes: string | Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    response.write(bytes, () => resolve());
  });
}
