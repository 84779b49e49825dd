import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

import { completion } from './completion.ts';
import { type FakeModel, modelList } from './model-list.ts';
import { type ReceivedRequest, receive } from './received-request.ts';
import type { Script } from './script.ts';

export interface FakeProviderOptions {
  /** Port on 127.0.0.1; 0 takes any free port. @default 0 */
  readonly port?: number;
}

/**
 * Starts a scripted provider on loopback: real sockets, no API key, no model.
 *
 * Until `answer` is called it answers `GET /models` with a list of the one model `fake-model`, and every other request with
 * `completion()`.
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

/** A provider for tests; see `startFakeProvider`. */
export class FakeProvider implements AsyncDisposable {
  /** The `baseURL` for the router's config, e.g. `http://127.0.0.1:49152/v1`. */
  readonly baseURL: string;
  /** Received requests, in the order in which their bodies were complete. */
  readonly requests: ReceivedRequest[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #waiting: ((request: ReceivedRequest) => void)[] = [];
  #scripts: Script[] = [completion()];
  /** Answers `GET /models`; undefined if the scripts do. */
  #models: Script | undefined = modelList();
  #listsModels = false;
  #connections = 0;
  #thrown: { readonly error: unknown } | undefined;

  /** @param server - must be listening: see `startFakeProvider` */
  constructor(server: Server) {
    this.#server = server;
    const address = server.address();
    if (address === null || typeof address === 'string')
      throw new TypeError('server must listen on a TCP port');
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

  /** Sets the scripts for the next requests, one each; the last script answers all later requests as well. */
  answer(...scripts: readonly [...Script[], Script]): void {
    this.#scripts = [...scripts];
    if (!this.#listsModels) this.#models = undefined;
  }

  /**
   * Answers every `GET /models` with these models, whatever scripts `answer` sets; it uses up none of them.
   *
   * ```ts
   * provider.listModels('small', { id: 'large', prices: { input: '2.00', output: '8.00' } });
   * ```
   */
  listModels(...models: readonly (string | FakeModel)[]): void {
    this.#listsModels = true;
    this.#models = modelList(...models);
  }

  /** The next request, once its body has arrived. */
  nextRequest(): Promise<ReceivedRequest> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  /** Number of connections accepted so far. */
  get connections(): number {
    return this.#connections;
  }

  /** Number of open connections, busy or idle. */
  get openConnections(): number {
    return this.#sockets.size;
  }

  /**
   * Stops listening and closes all connections.
   *
   * @throws the first error that a script threw: a mistake in the test, however its client handled it
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

  /** Same as `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
    // Writing to a disconnected client is no error.
    response.on('error', () => {});
    const request = await receive(message, response);
    if (!request) return;
    this.requests.push(request);
    this.#waiting.shift()?.(request);
    try {
      if (this.#models && request.method === 'GET' && /\/models(\?|$)/.test(request.url)) {
        await this.#models(response, request);
        return;
      }
      const [script, ...rest] = this.#scripts;
      if (rest.length > 0) this.#scripts = rest;
      await script?.(response, request);
    } catch (error) {
      this.#thrown ??= { error };
      response.destroy();
    }
  }
}
