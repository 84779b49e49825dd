import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';

/** One request of a client and the response it gets, whatever framework they came through. */
export interface Exchange {
  /** Made by us, before anything else; `x-request-id` of the response and the id in the ledger. */
  readonly id: string;
  readonly method: string;
  /** As it came: path and query, possibly still with the mount's prefix. */
  readonly url: string;
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
  readonly body: RequestBody;
  /** What every response to it carries beside its own headers: what browsers ask for, where a host lets them in. */
  corsHeaders?: Readonly<Record<string, string>>;
  /** And what is left of its key's limits, where it has some and they were asked. */
  rateLimitHeaders?: Readonly<Record<string, string>>;
  /** Another stands before it where what it is sent is recorded. */
  response: ClientResponse;
}

/** The request's bytes: still to be read, or what somebody before us read. */
export type RequestBody =
  | { readonly kind: 'stream'; readonly stream: Readable }
  /** `exact` says that these are the client's own bytes, not a parser's rendering of them. */
  | { readonly kind: 'bytes'; readonly bytes: Buffer; readonly exact: boolean }
  /** Read before the router got it, and not kept; `remedy` tells the app's author how to keep it. */
  | { readonly kind: 'lost'; readonly remedy: string };

/** The part of Node's `ServerResponse` that we use; the Web door brings its own. */
export interface ClientResponse {
  readonly headersSent: boolean;
  /** What was sent, once `headersSent` is true. */
  readonly statusCode: number;
  /** `end` was called. */
  readonly writableEnded: boolean;
  /** The connection, or what stands for it, is gone. */
  readonly destroyed: boolean;
  writeHead(status: number, headers: Readonly<Record<string, string>>): unknown;
  flushHeaders(): void;
  /** Says false when the client reads more slowly than we write: stop until `drain`. */
  write(chunk: Uint8Array): boolean;
  end(chunk?: Uint8Array): unknown;
  destroy(): unknown;
  on(event: 'close' | 'drain', listener: () => void): unknown;
  off(event: 'close' | 'drain', listener: () => void): unknown;
}

/** Whether the client still waits. Subscribes once, for the whole life of an exchange. */
export class ClientConnection {
  #gone: boolean;
  #listener: (() => void) | undefined;

  constructor(response: ClientResponse) {
    this.#gone = response.destroyed;
    response.on('close', () => {
      this.#gone = true;
      this.#listener?.();
    });
  }

  get gone(): boolean {
    return this.#gone;
  }

  /** Calls the listener when the client's side closes, at once if it has; the next listener replaces it. */
  onGone(listener: (() => void) | undefined): void {
    if (this.#gone) listener?.();
    else this.#listener = listener;
  }

  /** @throws {ClientDisconnectedError} if nobody waits any more */
  throwIfDisconnected(): void {
    if (this.#gone) throw new ClientDisconnectedError();
  }
}

/** The client left: nothing can be answered. Never reaches anyone outside. */
export class ClientDisconnectedError extends Error {
  override readonly name = 'ClientDisconnectedError';

  constructor() {
    super('The client closed its connection');
  }
}
