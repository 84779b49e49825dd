import * as http from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { isDeepStrictEqual } from 'node:util';

import type { Connection } from '../catalog/connection.ts';
import { UpstreamTimeoutError } from '../errors/upstream-errors.ts';
import { portOf } from '../http/url.ts';
import { asError } from '../platform/as-error.ts';
import { Dialer } from './dialer.ts';
import { WarmConnections } from './warm-connections.ts';

/** The connections to providers: an agent for each distinct origin with its connection options. */
export class Agents {
  readonly #agents: ProviderAgent[] = [];
  readonly #byConnection = new WeakMap<Connection, ProviderAgent>();

  for(connection: Connection): ProviderAgent {
    let agent = this.#byConnection.get(connection);
    if (!agent) {
      agent = this.#agents.find((each) => isSame(each.connection, connection));
      if (!agent) {
        agent = new ProviderAgent(connection);
        this.#agents.push(agent);
      }
      this.#byConnection.set(connection, agent);
    }
    return agent;
  }

  /** Keeps connections warm where these ask for it, and nowhere else. */
  keepWarm(connections: Iterable<Connection>): void {
    const wanted = new Set<ProviderAgent>();
    for (const connection of connections) {
      if (connection.keepWarm > 0) wanted.add(this.for(connection));
    }
    for (const agent of this.#agents) agent.setWarm(wanted.has(agent));
  }

  close(): void {
    for (const agent of this.#agents) agent.destroy();
  }
}

function isSame(one: Connection, other: Connection): boolean {
  return (
    one.origin.href === other.origin.href &&
    isDeepStrictEqual({ ...one, origin: '' }, { ...other, origin: '' })
  );
}

const KEEP_ALIVE_MS = 30_000;

/** All connections of an agent go to one origin, so one constant pool name serves all requests. */
const NAME = 'origin';

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
export class ProviderAgent extends http.Agent {
  readonly connection: Connection;
  /** Node compares it with the scheme of a request. */
  readonly protocol: string;
  readonly defaultPort: number;
  readonly #dialer: Dialer;
  readonly #warm: WarmConnections;
  readonly #waiting = new WaitingRequests();
  /** Connections that stand or are being opened, warm ones included. */
  #count = 0;

  constructor(connection: Connection) {
    super({
      keepAlive: true,
      maxSockets: Infinity,
      maxFreeSockets: 1024,
      timeout: KEEP_ALIVE_MS,
      scheduling: 'lifo',
    });
    this.connection = connection;
    this.protocol = connection.origin.protocol;
    this.defaultPort = portOf(connection.origin);
    this.#dialer = new Dialer(connection);
    this.#warm = new WarmConnections({
      size: connection.keepWarm,
      open: () => this.#open(true),
      hasRoom: () => this.#count < connection.maxConnections,
      onReady: this.#serveWaiting,
    });
    // After Node's own listener, which has put the connection among the free ones.
    if (connection.maxConnections !== Infinity) this.on('free', this.#serveWaiting);
  }

  /** Takes a free connection, else a warm one, else opens one, else waits. */
  override addRequest(request: http.ClientRequest, options: object): void {
    if (this.#isFull) {
      this.#waiting.add({ request, options });
      return;
    }
    const warmBefore = this.#warm.size;
    super.addRequest(request, options);
    // As Node says of a free connection: the provider may be closing it at this moment.
    if (this.#warm.size < warmBefore) request.reusedSocket = true;
  }

  override getName(): string {
    return NAME;
  }

  /** Called by Node where it has no free connection. */
  override createConnection(
    _options: unknown,
    callback?: (error: Error | null, socket: Duplex) => void,
  ): Socket | undefined {
    const socket = this.#warm.take() ?? this.#dialDirectly();
    if (socket) return socket;
    this.#open(false).then(
      // oxlint-disable-next-line promise/no-callback-in-promise -- Node's agents have callbacks
      (opened) => callback?.(null, opened),
      // oxlint-disable-next-line promise/no-callback-in-promise -- and in their types, a failure has a socket
      (error: unknown) => callback && Reflect.apply(callback, undefined, [asError(error)]),
    );
    return undefined;
  }

  setWarm(isWarm: boolean): void {
    if (isWarm) this.#warm.start();
    else this.#warm.stop();
  }

  /** The error for a request that has no connection and is aborted now: it may be waiting for one. */
  explainWait(reason: Error): Error {
    const isTimeout = reason instanceof UpstreamTimeoutError && reason.code === 'upstream_connect_timeout';
    if (!isTimeout || this.#waiting.isEmpty) return reason;
    const { maxConnections, origin, connectMs } = this.connection;
    const others = this.#waiting.prune() - 1;
    const cause = new Error(
      `${origin.origin}: maxConnections (${maxConnections}) are in use, and other requests that wait are ${others}`,
    );
    return Object.assign(new UpstreamTimeoutError('wait', connectMs), { cause });
  }

  override destroy(): void {
    this.#warm.stop();
    this.#dialer.close();
    super.destroy();
  }

  get #isFull(): boolean {
    return (
      this.#count >= this.connection.maxConnections &&
      this.#warm.size === 0 &&
      this.freeSockets[NAME] === undefined
    );
  }

  #dialDirectly(): Socket | undefined {
    const socket = this.#dialer.dialDirectly();
    if (!socket) return undefined;
    this.#count += 1;
    socket.once('close', this.#released);
    return socket;
  }

  async #open(background: boolean): Promise<Socket> {
    this.#count += 1;
    try {
      const socket = await this.#dialer.open(background);
      socket.once('close', this.#released);
      return socket;
    } catch (error) {
      this.#released();
      throw error;
    }
  }

  readonly #released = (): void => {
    this.#count -= 1;
    this.#serveWaiting();
    this.#warm.fill();
  };

  readonly #serveWaiting = (): void => {
    while (!this.#isFull) {
      const next = this.#waiting.next();
      if (!next) return;
      this.addRequest(next.request, next.options);
    }
  };
}

interface WaitingRequest {
  readonly request: http.ClientRequest;
  readonly options: object;
}

/** Requests in the order of their arrival. Those that were given up are passed over. */
class WaitingRequests {
  #requests: WaitingRequest[] = [];
  #pruneAt = MIN_PRUNE;

  get isEmpty(): boolean {
    return this.#requests.length === 0;
  }

  add(waiting: WaitingRequest): void {
    // Doubling: Node reports nothing for a request that is given up before it has a socket.
    if (this.#requests.length >= this.#pruneAt) this.#pruneAt = Math.max(MIN_PRUNE, 2 * this.prune());
    this.#requests.push(waiting);
  }

  next(): WaitingRequest | undefined {
    for (;;) {
      const waiting = this.#requests.shift();
      if (!waiting?.request.destroyed) return waiting;
    }
  }

  /** Forgets requests that were given up. Returns how many are left. */
  prune(): number {
    this.#requests = this.#requests.filter(({ request }) => !request.destroyed);
    return this.#requests.length;
  }
}

const MIN_PRUNE = 16;
