import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';

import type { ReceivedRequest } from './received-request.ts';

/**
 * What a provider does with a request: answers it, or doesn't. May be asynchronous.
 *
 * Those of this module can be combined by `sequence`; one of your own has all of Node's `ServerResponse`.
 */
export type Script = (response: ServerResponse, request: ReceivedRequest) => unknown;

/** What a script is made of: bytes of a body, or another script. */
export type Part = string | Uint8Array | Script;

/**
 * Does one after another, for one request: bytes leave in a piece of their own, and no part begins
 * before the last one is over. Stops when the other side has left.
 *
 * It ends the answer only where one of its parts does: see `end`.
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

/** The same script for so many requests, as in `provider.answer(...repeat(3, error(503)), completion())`. */
export function repeat(times: number, script: Script): Script[] {
  return Array.from({ length: times }, () => script);
}

/** Sends status and headers at once, before there is any body. */
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

/** A stream of server-sent events: its head at once, then its parts, then its end. */
export function stream(...parts: readonly Part[]): Script {
  return sequence(head(200, { 'content-type': 'text/event-stream' }), ...parts, end);
}

/** Ends the answer as its head announced. */
export const end: Script = (response) => {
  response.end();
};

/** Does nothing for so long. */
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

/** Does nothing more, until the other side leaves. */
export const hang: Script = (response) =>
  new Promise<void>((resolve) => {
    response.once('close', resolve);
  });

/** Resets the connection (RST); the other side may lose what was on its way. */
export const reset: Script = (response) => {
  response.socket?.resetAndDestroy();
};

/** Closes the connection as if all was said (FIN), wherever the answer stands. */
export const hangUp: Script = (response) => {
  response.socket?.end();
};

/** Bytes on the connection as they are, in place of HTTP or in the middle of it. */
export function raw(bytes: string | Uint8Array): Script {
  return (response) =>
    new Promise<void>((resolve) => {
      if (response.socket) response.socket.write(bytes, () => resolve());
      else resolve();
    });
}

/** Bytes of a body, a few at a time. */
export function drip(
  body: string | Uint8Array,
  { bytes = 1, everyMs = 1 }: { readonly bytes?: number; readonly everyMs?: number } = {},
): Script {
  const all = Buffer.from(body);
  const pieces = Array.from({ length: Math.ceil(all.length / bytes) }, (_, n) =>
    all.subarray(n * bytes, (n + 1) * bytes),
  );
  return sequence(...pieces.flatMap((piece) => [piece, pause(everyMs)]));
}

/** Announces the length of a whole body, sends its first `bytes` bytes, and hangs up. */
export function truncated(body: string | object, bytes: number): Script {
  const whole = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const headers = { 'content-type': 'application/json', 'content-length': whole.length };
  return sequence(head(200, headers), whole.subarray(0, bytes), hangUp);
}

/** Resolves once the bytes have left, and so not before a slow reader has room for them. */
function writeBytes(response: ServerResponse, bytes: string | Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    response.write(bytes, () => resolve());
  });
}
