import type { Connection } from '../../catalog/connection.ts';
import { assertObject } from '../../options/resolve-options.ts';
import type { TransportOption } from '../../options/router-options.ts';
import { type ConnectionPool, ConnectionPools } from './connection-pools.ts';
import { Dialer } from './dialer.ts';
import { Http2Sessions } from './http2-sessions.ts';
import { loadUndici } from './load-undici.ts';
import type { Sending, SendListener, Transport, UpstreamRequest } from './transport.ts';
import { UndiciClients } from './undici-clients.ts';

export interface UndiciTransportOptions {
  /**
   * Use HTTP/2 with providers that offer it, with up to 100 streams on one connection. It needs `https:`.
   *
   * @default true
   */
  readonly allowH2?: boolean;
}

/** Sends requests to providers by undici, in place of http-proxy-middleware: for the option `transport`.
 *
 * @throws {Error} that says what to install, if undici is missing
 * @throws {TypeError} naming the invalid option
 */
export function undiciTransport(options: UndiciTransportOptions = {}): TransportOption {
  assertObject(options, 'undiciTransport', { allowH2: true });
  const { allowH2 = true } = options;
  if (typeof allowH2 !== 'boolean') throw new TypeError('undiciTransport.allowH2 must be true or false');
  loadUndici();
  return { create: () => new UndiciTransport(allowH2) };
}

class UndiciTransport implements Transport {
  readonly #origins: ConnectionPools<OriginConnections>;

  constructor(allowH2: boolean) {
    this.#origins = new ConnectionPools((connection) => new OriginConnections(connection, allowH2));
  }

  send(request: UpstreamRequest, listener: SendListener): Sending {
    return this.#origins.for(request.connection).send(request, listener);
  }

  keepWarm(connections: readonly Connection[]): void {
    this.#origins.keepWarm(connections);
  }

  closeUnused(connection: Connection): void {
    this.#origins.closeUnused(connection);
  }

  close(): void {
    this.#origins.close();
  }
}

const BUFFERS = {
  readableHighWaterMark: 65_536,
  // Without TLS, a long body is written in one go: undici would wait for each of its chunks to leave.
  writableHighWaterMark: 2 ** 30,
};

/** The connections to one origin: over HTTP/2 until the provider chooses HTTP/1.1, if that is allowed. */
class OriginConnections implements ConnectionPool {
  readonly connection: Connection;
  readonly #dialer: Dialer;
  readonly #http1: UndiciClients;
  readonly #http2: Http2Sessions;
  #usesHttp2: boolean;
  #isWarm = false;

  constructor(connection: Connection, allowH2: boolean) {
    this.connection = connection;
    this.#usesHttp2 = allowH2 && connection.origin.protocol === 'https:';
    this.#dialer = new Dialer(connection, this.#onClosed, BUFFERS);
    this.#http1 = new UndiciClients(this.#dialer);
    this.#http2 = new Http2Sessions({
      dialer: this.#dialer,
      onHttp1: (socket) => {
        this.#http1.adopt(socket);
        this.#usesHttp2 = false;
        this.setWarm(this.#isWarm);
      },
      sendByHttp1: (request, listener) => this.#http1.send(request, listener),
    });
  }

  send(request: UpstreamRequest, listener: SendListener): Sending {
    return (this.#usesHttp2 ? this.#http2 : this.#http1).send(request, listener);
  }

  get isEmpty(): boolean {
    return this.#dialer.isEmpty;
  }

  setWarm(isWarm: boolean): void {
    this.#isWarm = isWarm;
    this.#http2.setWarm(isWarm && this.#usesHttp2);
    this.#http1.setWarm(isWarm && !this.#usesHttp2);
  }

  closeUnused(): void {
    this.#http2.closeUnused();
    this.#http1.closeUnused();
  }

  destroy(): void {
    this.#isWarm = false;
    this.#dialer.close();
    this.#http2.close();
    this.#http1.close();
  }

  readonly #onClosed = (): void => {
    this.#http2.serve();
    this.#http1.serve();
  };
}
