import { once } from 'node:events';
import { isIP, connect as connectPlain, type Socket } from 'node:net';
import * as tls from 'node:tls';

import type { Connection } from '../catalog/connection.ts';
import { hostOf, portOf } from '../http/url.ts';
import { openTunnel, outboundProxy, unrefWhileConnecting } from './outbound-proxy.ts';

const SOCKET_OPTIONS = { noDelay: true, keepAlive: true, keepAliveInitialDelay: 1000 };

/** Opens the connections to one provider: straight or through the outbound proxy, with its certificates. */
export class Dialer {
  readonly connection: Connection;
  readonly #tls: tls.ConnectionOptions | undefined;
  readonly #opening = new Set<AbortController>();
  /** The latest TLS session, which later handshakes resume. */
  #session: Buffer | undefined;

  /** @param protocols - for ALPN, in the order of preference */
  constructor(connection: Connection, protocols: readonly string[] = ['http/1.1']) {
    this.connection = connection;
    this.#tls = tlsOptions(connection, protocols);
  }

  /** Begins to connect; undefined if only `open` can do so, because there is an outbound proxy or its address is wrong. */
  dialDirectly(): Socket | undefined {
    try {
      if (outboundProxy(this.connection)) return undefined;
    } catch {
      return undefined;
    }
    return this.#dial();
  }

  /** Opens a connection that is ready for a request, after all handshakes.
   *
   * @param background - it doesn't keep the process alive
   */
  async open(background = false): Promise<Socket> {
    const opening = new AbortController();
    this.#opening.add(opening);
    const ms = this.connection.connectMs + GRACE_MS;
    const giveUp = setTimeout(() => {
      opening.abort(new Error(`no connection within ${ms} ms`));
    }, ms).unref();
    try {
      return await this.#open({ signal: opening.signal, background });
    } finally {
      clearTimeout(giveUp);
      this.#opening.delete(opening);
    }
  }

  /** Gives up connections that are being opened. */
  close(): void {
    for (const opening of this.#opening) opening.abort(new Error('the router was closed'));
  }

  async #open(terms: { readonly signal: AbortSignal; readonly background: boolean }): Promise<Socket> {
    const proxy = outboundProxy(this.connection);
    const tunnel = proxy && (await openTunnel(proxy, this.connection, terms));
    const socket = this.#dial(tunnel);
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

  #dial(tunnel?: Socket): Socket {
    const { origin, localAddress, lookup } = this.connection;
    tunnel?.setNoDelay(true).setKeepAlive(true, SOCKET_OPTIONS.keepAliveInitialDelay);
    const direct = {
      ...SOCKET_OPTIONS,
      host: hostOf(origin),
      port: portOf(origin),
      ...(localAddress !== undefined && { localAddress }),
      ...(lookup && { lookup }),
    };
    if (!this.#tls) return tunnel ?? connectPlain(direct);
    const socket = tls.connect({
      ...this.#tls,
      ...(tunnel ? { socket: tunnel } : direct),
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
const GRACE_MS = 30_000;

function tlsOptions(
  { origin, tls: certificates }: Connection,
  protocols: readonly string[],
): tls.ConnectionOptions | undefined {
  if (origin.protocol !== 'https:') return undefined;
  const host = hostOf(origin);
  const { servername = isIP(host) === 0 ? host : '', ca, ...client } = certificates ?? {};
  return {
    servername,
    ALPNProtocols: [...protocols],
    // Parsed once, and not for each connection.
    ...(certificates && {
      secureContext: tls.createSecureContext({ ...client, ...(ca && { ca: [...ca] }) }),
    }),
  };
}
