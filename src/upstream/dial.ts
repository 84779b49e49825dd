import { once } from 'node:events';
import { connect as connectPlain, isIP, type Socket } from 'node:net';
import * as tls from 'node:tls';

import { Timeout } from '../async/timeout.ts';
import { connectionError } from './transport.ts';

const SOCKET_OPTIONS = {
  noDelay: true,
  keepAlive: true,
  keepAliveInitialDelay: 1000,
  readableHighWaterMark: 65_536,
  // A long body is written in one go: undici would wait for each of its chunks to leave.
  writableHighWaterMark: 2 ** 30,
};
/** Requests have given up by their own timeouts before. */
const GIVE_UP_MS = 60_000;

/** Opens connections to one origin. */
export class Dial {
  readonly #origin: URL;
  readonly #protocols: string[];
  /** The latest TLS session, which later handshakes resume. */
  #session: Buffer | undefined;

  /** @param protocols - for ALPN, in the order of preference */
  constructor(origin: URL, protocols: readonly string[]) {
    this.#origin = origin;
    this.#protocols = [...protocols];
  }

  /** Opens a connection that is ready for a request, after all handshakes. */
  async open(): Promise<Socket> {
    const socket = this.#connect();
    const opening = new AbortController();
    const timeout = new Timeout(GIVE_UP_MS, () => {
      opening.abort(connectionError('ETIMEDOUT', `no connection within ${GIVE_UP_MS} ms`));
    });
    try {
      const event = this.#origin.protocol === 'https:' ? 'secureConnect' : 'connect';
      await once(socket, event, { signal: opening.signal });
    } catch (error) {
      socket.on('error', () => {});
      socket.destroy();
      throw opening.signal.aborted ? opening.signal.reason : error;
    } finally {
      timeout.clear();
    }
    return socket;
  }

  #connect(): Socket {
    const { hostname, port, protocol } = this.#origin;
    const host = hostname.replace(/^\[|\]$/g, '');
    const isTls = protocol === 'https:';
    const target = { ...SOCKET_OPTIONS, host, port: port === '' ? (isTls ? 443 : 80) : Number(port) };
    if (!isTls) return connectPlain(target);
    const socket = tls.connect({
      ...target,
      servername: isIP(host) === 0 ? host : '',
      ALPNProtocols: this.#protocols,
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
