import * as http from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

import type { Connection } from '../../catalog/connection.ts';
import { hostOf, portOf } from '../../http/url.ts';
import { asError } from '../../platform/as-error.ts';
import {
  type ConnectionPool,
  ConnectionPools,
  KEEP_ALIVE_MS,
  MAX_FREE_CONNECTIONS,
} from './connection-pools.ts';
import { waitEnded } from './connection-wait.ts';
import { Dialer } from './dialer.ts';
import { WarmConnections, WarmSocket } from './warm-connections.ts';

/** The agents for all providers. */
export class Agents extends ConnectionPools<ProviderAgent> {
  constructor() {
    super((connection) => new ProviderAgent(connection));
  }
}

/** All connections of an agent go to one origin, so one constant pool name serves all requests. */
const NAME = 'origin';

/**
 * Given to Node's agent in place of a request's options, which it would copy several times. With it, Node guesses no server
 * name. `Dialer` knows both.
 */
const NO_SERVER_NAME = { servername: '' };

/** A part of every agent of Node, which its types lack. */
declare module 'node:http' {
  interface Agent {
    addRequest(request: http.ClientRequest, options: object): void;
  }
}

/** Keep-alive connections to one provider.
 *
 * httpxy's own agents silently queue requests beyond 256 sockets. An idle
 * socket is closed before a provider would close it: after `KEEP_ALIVE_MS`, or
 * the time that the provider announces, if that is shorter.
 */
export class ProviderAgent extends http.Agent implements ConnectionPool {
  readonly connection: Connection;
  /** Node compares it with the scheme of a request. */
  readonly protocol: string;
  /** Without the brackets of an IPv6 address. */
  readonly host: string;
  readonly port: string;
  readonly defaultPort: number;
  readonly #dialer: Dialer;
  readonly #warm: WarmConnections<WarmSocket>;
  readonly #waiting = new WaitingRequests();

  constructor(connection: Connection) {
    super({
      keepAlive: true,
      maxSockets: Infinity,
      maxFreeSockets: MAX_FREE_CONNECTIONS,
      timeout: KEEP_ALIVE_MS,
      scheduling: 'lifo',
    });
    this.connection = connection;
    const { protocol, port } = connection.origin;
    this.protocol = protocol;
    this.host = hostOf(connection.origin);
    this.port = port;
    this.defaultPort = portOf(connection.origin);
    this.#dialer = new Dialer(connection, this.#released);
    this.#warm = new WarmConnections({
      size: connection.keepWarm,
      open: async () => new WarmSocket(await this.#dialer.open({ background: true })),
      hasRoom: () => this.#dialer.hasRoom,
      onReady: this.#serveWaiting,
    });
    // After Node's own listener, which has put the connection among the free ones.
    if (connection.maxConnections !== Infinity) this.on('free', this.#serveWaiting);
  }

  /** Takes a free connection, else a warm one, else opens one, else waits. */
  override addRequest(request: http.ClientRequest): void {
    if (this.#isFull) {
      this.#waiting.add(request);
      return;
    }
    const warmBefore = this.#warm.size;
    super.addRequest(request, NO_SERVER_NAME);
    // As Node says of a free connection: the provider may be closing it at this moment.
    if (this.#warm.size < warmBefore) request.reusedSocket = true;
  }

  /** Called by Node when a request takes a free connection, whose timeout is for the time without one. During a request, each read and write would restart it. */
  override reuseSocket(socket: Socket, request: http.ClientRequest): void {
    super.reuseSocket(socket, request);
    socket.setTimeout(0);
  }

  override getName(): string {
    return NAME;
  }

  /** Called by Node where it has no free connection. */
  override createConnection(
    _options: unknown,
    callback?: (error: Error | null, socket: Duplex) => void,
  ): Socket | undefined {
    const socket = this.#warm.take()?.release() ?? this.#dialer.dialDirectly();
    if (socket) return socket;
    this.#dialer.open().then(
      // oxlint-disable-next-line promise/no-callback-in-promise -- Node's agents have callbacks
      (opened) => callback?.(null, opened),
      // oxlint-disable-next-line promise/no-callback-in-promise -- and in their types, a failure has a socket
      (error: unknown) => callback && Reflect.apply(callback, undefined, [asError(error)]),
    );
    return undefined;
  }

  get isEmpty(): boolean {
    return this.#dialer.isEmpty;
  }

  setWarm(isWarm: boolean): void {
    if (isWarm) this.#warm.start();
    else this.#warm.stop();
  }

  closeUnused(): void {
    for (const socket of this.freeSockets[NAME] ?? []) socket.destroy();
  }

  /** How many requests wait for a connection. */
  get waiting(): number {
    return this.#waiting.prune();
  }

  /** The error for a request that waited for a connection, and was destroyed for this reason. */
  waitEnded(reason: Error): Error {
    return waitEnded(reason, this.#dialer, this.waiting);
  }

  override destroy(): void {
    this.#warm.stop();
    this.#dialer.close();
    super.destroy();
  }

  get #isFull(): boolean {
    return !this.#dialer.hasRoom && this.#warm.size === 0 && this.freeSockets[NAME] === undefined;
  }

  readonly #released = (): void => {
    this.#serveWaiting();
    this.#warm.fill();
  };

  readonly #serveWaiting = (): void => {
    while (!this.#isFull) {
      const next = this.#waiting.next();
      if (!next) return;
      this.addRequest(next);
    }
  };
}

/** Requests in the order of their arrival. Those that were given up are passed over. */
class WaitingRequests {
  #requests: http.ClientRequest[] = [];
  #pruneAt = MIN_PRUNE;

  add(request: http.ClientRequest): void {
    // Doubling: Node reports nothing for a request that is given up before it has a socket.
    if (this.#requests.length >= this.#pruneAt) this.#pruneAt = Math.max(MIN_PRUNE, 2 * this.prune());
    this.#requests.push(request);
  }

  next(): http.ClientRequest | undefined {
    for (;;) {
      const request = this.#requests.shift();
      if (!request?.destroyed) return request;
    }
  }

  /** Forgets requests that were given up. Returns how many are left. */
  prune(): number {
    this.#requests = this.#requests.filter((request) => !request.destroyed);
    return this.#requests.length;
  }
}

const MIN_PRUNE = 16;
