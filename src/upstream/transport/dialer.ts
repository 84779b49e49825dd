import { once } from 'node:events';
import { isIP, connect as connectPlain, type Socket } from 'node:net';
import * as tls from 'node:tls';

import { Timeout } from '../../async/timeout.ts';
import type { Connection } from '../../catalog/connection.ts';
import { hostOf, portOf } from '../../http/url.ts';
import { laterLookup } from './later-lookup.ts';
import { openTunnel, outboundProxy, unrefWhileConnecting } from './outbound-proxy.ts';
import { connectionError } from './transport.ts';

const SOCKET_OPTIONS = { noDelay: true, keepAlive: true, keepAliveInitialDelay: 1000 };

/** Buffers of plain sockets, where Node's defaults don't fit. A TLS socket has 64 KB, whatever is asked for. */
export interface SocketBuffers {
  readonly readableHighWaterMark?: number;
  readonly writableHighWaterMark?: number;
}

interface OpenTerms {
  /** For ALPN, in the order of preference. @default HTTP/1.1 alone */
  readonly protocols?: readonly string[];
  /** It doesn't keep the process alive. */
  readonly background?: boolean;
}

const HTTP_1 = ['http/1.1'];

/** Opens and counts the connections to one provider: straight or through the outbound proxy, with its certificates. */
export class Dialer {
  readonly connection: Connection;
  readonly #buffers: SocketBuffers;
  readonly #onClosed: () => void;
  readonly #tls: tls.ConnectionOptions | undefined;
  readonly #opening = new Set<AbortController>();
  #count = 0;
  /** The latest TLS session, which later handshakes resume. */
  #session: Buffer | undefined;

  /** @param onClosed - a connection was closed or not opened: there may be room */
  constructor(connection: Connection, onClosed: () => void, buffers: SocketBuffers = {}) {
    this.connection = connection;
    this.#onClosed = onClosed;
    this.#buffers = buffers;
    this.#tls = tlsOptions(connection);
  }

  /** Whether one more connection is allowed. Those that are being opened count. */
  get hasRoom(): boolean {
    return this.#count < this.connection.maxConnections;
  }

  /** Whether there is no connection, not even one that is being opened. */
  get isEmpty(): boolean {
    return this.#count === 0;
  }

  get isOpening(): boolean {
    return this.#opening.size > 0;
  }

  /** Whether a connection stands; false if all are being opened. */
  get isConnected(): boolean {
    return this.#count > this.#opening.size;
  }

  /** Begins to connect; undefined if only `open` can do so, or say why not: there is an outbound proxy, or an option is wrong. */
  dialDirectly(): Socket | undefined {
    try {
      if (outboundProxy(this.connection)) return undefined;
      const socket = this.#dial(HTTP_1).once('close', this.#released);
      this.#count += 1;
      return socket;
    } catch {
      return undefined;
    }
  }

  /** Opens a connection that is ready for a request, after all handshakes. */
  async open({ protocols = HTTP_1, background = false }: OpenTerms = {}): Promise<Socket> {
    const opening = new AbortController();
    this.#opening.add(opening);
    this.#count += 1;
    const ms = this.connection.connectMs + GRACE_MS;
    const giveUp = new Timeout(ms, () => {
      opening.abort(connectionError('ETIMEDOUT', `no connection within ${ms} ms`));
    }).unref();
    try {
      const socket = await this.#open({ signal: opening.signal, protocols, background });
      this.#opening.delete(opening);
      return socket.once('close', this.#released);
    } catch (error) {
      this.#opening.delete(opening);
      this.#released();
      throw error;
    } finally {
      giveUp.clear();
    }
  }

  /** Gives up connections that are being opened. */
  close(): void {
    const closed = connectionError('ECONNRESET', 'The router was closed');
    for (const opening of this.#opening) opening.abort(closed);
  }

  readonly #released = (): void => {
    this.#count -= 1;
    this.#onClosed();
  };

  async #open(terms: Required<OpenTerms> & { readonly signal: AbortSignal }): Promise<Socket> {
    const proxy = outboundProxy(this.connection);
    const tunnel = proxy && (await openTunnel(proxy, this.connection, terms));
    const socket = this.#dial(terms.protocols, tunnel);
    if (terms.background) unrefWhileConnecting(socket);
    if (socket === tunnel) return socket;
    try {
      await once(socket, this.#tls ? 'secureConnect' : 'connect', { signal: terms.signal });
    } catch (error) {
      socket.on('error', () => {});
      socket.destroy();
      throw terms.signal.aborted ? terms.signal.reason : error;
    }
    return socket;
  }

  #dial(protocols: readonly string[], tunnel?: Socket): Socket {
    const { origin, localAddress, lookup } = this.connection;
    tunnel?.setNoDelay(true).setKeepAlive(true, SOCKET_OPTIONS.keepAliveInitialDelay);
    const direct = {
      ...SOCKET_OPTIONS,
      ...this.#buffers,
      host: hostOf(origin),
      port: portOf(origin),
      ...(localAddress !== undefined && { localAddress }),
      ...(lookup && { lookup: laterLookup(lookup) }),
    };
    if (!this.#tls) return tunnel ?? connectPlain(direct);
    const socket = tls.connect({
      ...this.#tls,
      ALPNProtocols: [...protocols],
      // With the host, as an address that a certificate is checked for.
      ...(tunnel ? { socket: tunnel, host: hostOf(origin) } : direct),
      ...(this.#session && { session: this.#session }),
    });
    socket.on('session', (session) => {
      this.#session = session;
    });
    socket.once('close', (hadError) => {
      if (hadError) this.#session = undefined;
    });
    return socket;
  }
}

/** A request has given up by its own timeout before; this ends what it left, and connections without a request. */
const GRACE_MS = 1000;

function tlsOptions({ origin, tls: certificates }: Connection): tls.ConnectionOptions | undefined {
  if (origin.protocol !== 'https:') return undefined;
  const host = hostOf(origin);
  const { servername = isIP(host) === 0 ? host : '', ca, ...client } = certificates ?? {};
  return {
    servername,
    // Parsed once, and not for each connection.
    ...(certificates && {
      secureContext: tls.createSecureContext({ ...client, ...(ca && { ca: [...ca] }) }),
    }),
  };
}
