import type { Socket } from 'node:net';

import { assertObject } from '../options/resolve-options.ts';
import type { TransportOption } from '../options/router-options.ts';
import { Dial } from './dial.ts';
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
  readonly #allowH2: boolean;
  readonly #origins = new Map<string, OriginConnections>();
  /** Avoids `URL.origin`, which builds its string on each read. */
  readonly #byUrl = new WeakMap<URL, OriginConnections>();

  constructor(allowH2: boolean) {
    this.#allowH2 = allowH2;
  }

  send(request: UpstreamRequest, listener: SendListener): Sending {
    return this.#connectionsTo(request.origin).send(request, listener);
  }

  close(): void {
    for (const connections of this.#origins.values()) connections.close();
  }

  #connectionsTo(url: URL): OriginConnections {
    let connections = this.#byUrl.get(url);
    if (!connections) {
      const { origin } = url;
      connections = this.#origins.get(origin) ?? new OriginConnections(url, this.#allowH2);
      this.#origins.set(origin, connections);
      this.#byUrl.set(url, connections);
    }
    return connections;
  }
}

/** The connections to one origin: over HTTP/2 until the provider chooses HTTP/1.1, if that is allowed. */
class OriginConnections {
  readonly #http1: UndiciClients;
  readonly #http2: Http2Sessions;
  #usesHttp2: boolean;
  /** Connections that were opened for HTTP/2, over which the provider chose HTTP/1.1. */
  readonly #opened: Socket[] = [];

  constructor(origin: URL, allowH2: boolean) {
    const maxConnections = Infinity;
    const dial1 = new Dial(origin, ['http/1.1']);
    const dial2 = new Dial(origin, ['h2', 'http/1.1']);
    this.#usesHttp2 = allowH2 && origin.protocol === 'https:';
    this.#http1 = new UndiciClients(origin, maxConnections, async () => this.#takeOpened() ?? dial1.open());
    this.#http2 = new Http2Sessions({
      origin,
      maxConnections,
      dial: () => dial2.open(),
      onHttp1: (socket) => {
        this.#usesHttp2 = false;
        this.#opened.push(socket);
      },
      sendByHttp1: (request, listener) => this.#http1.send(request, listener),
    });
  }

  send(request: UpstreamRequest, listener: SendListener): Sending {
    return (this.#usesHttp2 ? this.#http2 : this.#http1).send(request, listener);
  }

  close(): void {
    this.#http2.close();
    this.#http1.close();
    for (const socket of this.#opened) socket.destroy();
  }

  #takeOpened(): Socket | undefined {
    for (let socket = this.#opened.pop(); socket; socket = this.#opened.pop()) {
      if (!socket.destroyed) return socket;
    }
    return undefined;
  }
}
