import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

import { completion } from './completion.ts';
import { type ReceivedRequest, receive } from './received-request.ts';
import type { Script } from './script.ts';

export interface FakeProviderOptions {
  /** Port on 127.0.0.1; 0 takes any that is free. @default 0 */
  readonly port?: number;
}

/**
 * Starts a provider on loopback that does what it is told: real sockets, no key, no model.
 *
 * Until it is told anything it answers every request with `completion()`.
 *
 * ```ts
 * await using provider = await startFakeProvider();
 * provider.answer(error(503), completion('Back again.'));
 * ```
 */
export async function startFakeProvider({ port = 0 }: FakeProviderOptions = {}): Promise<FakeProvider> {
  const server = createServer();
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return new FakeProvider(server);
}

/** A provider in a test. */
export class FakeProvider implements AsyncDisposable {
  /** What to give as a provider's `baseURL`, e.g. `http://127.0.0.1:49152/v1`. */
  readonly baseURL: string;
  /** What it was sent, in the order in which it had arrived. */
  readonly requests: ReceivedRequest[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #waiting: ((request: ReceivedRequest) => void)[] = [];
  #scripts: Script[] = [completion()];
  #connections = 0;
  #thrown: { readonly error: unknown } | undefined;

  /** @param server - that listens already: see `startFakeProvider` */
  constructor(server: Server) {
    this.#server = server;
    const address = server.address();
    if (address === null || typeof address === 'string') throw new TypeError('the server has no port');
    this.baseURL = `http://127.0.0.1:${address.port}/v1`;
    server.on('connection', (socket) => {
      this.#connections += 1;
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    server.on('request', (request, response) => {
      void this.#serve(request, response);
    });
  }

  /** Says what the next requests get, a script each; the last script is for all that come after, too. */
  answer(...scripts: readonly [...Script[], Script]): void {
    this.#scripts = [...scripts];
  }

  /** The next request that arrives, once its body is there. */
  nextRequest(): Promise<ReceivedRequest> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  /** Connections that it has accepted so far. */
  get connections(): number {
    return this.#connections;
  }

  /** Connections that are open now, busy or kept. */
  get openConnections(): number {
    return this.#sockets.size;
  }

  /**
   * Stops listening and closes all connections.
   *
   * @throws what a script has thrown: that is a mistake of the test, whatever its client made of it
   */
  async close(): Promise<void> {
    if (this.#server.listening) {
      const closed = once(this.#server, 'close');
      this.#server.close();
      for (const socket of this.#sockets) socket.destroy();
      await closed;
    }
    if (this.#thrown) throw this.#thrown.error;
  }

  /** As `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
    // Whoever has left can't be written to, and that is nobody's fault.
    response.on('error', () => {});
    const request = await receive(message, response);
    if (!request) return;
    this.requests.push(request);
    this.#waiting.shift()?.(request);
    try {
      const [script, ...rest] = this.#scripts;
      if (rest.length > 0) this.#scripts = rest;
      await script?.(response, request);
    } catch (error) {
      this.#thrown ??= { error };
      response.destroy();
    }
  }
}
