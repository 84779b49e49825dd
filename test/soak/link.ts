import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/**
 * What a link does: `pass` all; `refuse`: reset what there is and what comes; `hold`: keep all bytes, either way, until
 * it passes again; `forget`: lose what is sent on the connections that there are, for ever, and tell nobody; `mute`: pass
 * what the client says and lose the answers; `slow`: pass each piece late.
 */
export type LinkState = 'pass' | 'refuse' | 'hold' | 'forget' | 'mute' | 'slow';

interface Pair {
  readonly client: Socket;
  server: Socket;
  /** Bytes were lost: it can't go on. */
  isBroken: boolean;
  /** What is on its way, by who gets it: nothing overtakes what was sent before it. */
  readonly late: { readonly client: Buffer[]; readonly server: Buffer[] };
}

/** So long without an answer, all that was asked has been answered. */
const QUIET_MS = 40;

/** The network between one gateway and one server. */
export class Link {
  readonly #pairs = new Set<Pair>();
  readonly #door = createServer((client) => this.#join(client));
  readonly #slowMs: number;
  #target: number;
  #state: LinkState = 'pass';

  /** @param slowMs - how late a slow one passes what it is given */
  constructor(target: number, slowMs = 120) {
    this.#target = target;
    this.#slowMs = slowMs;
  }

  async open(): Promise<this> {
    this.#door.listen(0, '127.0.0.1');
    await once(this.#door, 'listening');
    return this;
  }

  get port(): number {
    return (this.#door.address() as AddressInfo).port;
  }

  set state(state: LinkState) {
    this.#state = state;
    for (const pair of this.#pairs) {
      if (state === 'refuse' || (state === 'pass' && pair.isBroken)) cut(pair);
      else if (state === 'forget') pair.isBroken = true;
      else if (state === 'hold') pauseBoth(pair);
      else resumeBoth(pair);
    }
  }

  /** Resets all connections that there are. */
  cut(): void {
    for (const pair of this.#pairs) cut(pair);
  }

  /** Leads all that there is to another server, without closing a connection of a client. */
  async leadTo(target: number): Promise<void> {
    for (const { client } of this.#pairs) client.pause();
    await pause(QUIET_MS);
    this.#target = target;
    for (const pair of this.#pairs) {
      const old = pair.server;
      old.removeAllListeners('close');
      old.destroy();
      this.#lead(pair);
      pair.client.resume();
    }
  }

  async close(): Promise<void> {
    this.#door.close();
    this.cut();
    await once(this.#door, 'close');
  }

  #join(client: Socket): void {
    if (this.#state === 'refuse') return void client.resetAndDestroy();
    const pair: Pair = { client, server: client, isBroken: false, late: { client: [], server: [] } };
    this.#pairs.add(pair);
    client.setNoDelay(true);
    client.on('error', () => {});
    client.on('close', () => {
      this.#pairs.delete(pair);
      pair.server.destroy();
    });
    client.on('data', (bytes) => this.#pass(pair, bytes, 'server'));
    this.#lead(pair);
    if (this.#state === 'hold') pauseBoth(pair);
  }

  #lead(pair: Pair): void {
    const server = connect(this.#target, '127.0.0.1');
    pair.server = server;
    server.setNoDelay(true);
    server.on('error', () => {});
    server.on('close', () => {
      // A network that passes nothing doesn't pass this on either.
      if (this.#state === 'hold' || pair.isBroken) pair.isBroken = true;
      else pair.client.destroy();
    });
    server.on('data', (bytes) => {
      if (this.#state === 'mute') pair.isBroken = true;
      else this.#pass(pair, bytes, 'client');
    });
  }

  #pass(pair: Pair, bytes: Buffer, to: 'client' | 'server'): void {
    if (pair.isBroken) return;
    const late = pair.late[to];
    if (this.#state !== 'slow' && late.length === 0) return void pair[to].write(bytes);
    late.push(bytes);
    setTimeout(() => {
      const first = late.shift();
      if (first) pair[to].write(first);
    }, this.#slowMs);
  }
}

function pauseBoth({ client, server }: Pair): void {
  client.pause();
  server.pause();
}

function resumeBoth({ client, server }: Pair): void {
  client.resume();
  server.resume();
}

function cut({ client, server }: Pair): void {
  if (client.readyState === 'open') client.resetAndDestroy();
  else client.destroy();
  server.destroy();
}
