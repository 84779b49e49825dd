/** Clients on raw sockets: they send requests that were built once, and read no more of an answer than they must. */
import { once } from 'node:events';
import * as net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { answerParent } from './parent.ts';

interface Target {
  readonly port: number;
  readonly path: string;
  readonly key: string;
  readonly model: string;
  /** Of the request's body. */
  readonly bytes: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** Requests one after the other on each connection, as fast as they are answered. */
interface ClosedLoop extends Target {
  /** Used in turn. @default `key` alone */
  readonly keys?: readonly string[];
  readonly connections: number;
  readonly seconds: number;
}

/** Requests that start at their time, whatever the others do. */
interface OpenLoop extends Target {
  readonly perSecond: number;
  readonly seconds: number;
}

/** A number of streams at a time; one that ended is followed by the next. */
interface Streams extends Target {
  readonly streams: number;
  readonly seconds: number;
}

/** How long those that are held are watched. */
interface Watch {
  readonly seconds: number;
}

/** When the streams that still run are let go. */
interface Limit {
  /** @default none */
  readonly mostSeconds?: number;
}

export interface Requests {
  readonly answered: number;
  readonly failed: number;
  readonly seconds: number;
  /** Of each request. */
  readonly ms: readonly number[];
}

export interface Chunks {
  readonly streams: number;
  readonly chunks: number;
  /** Not a 200, or not whole. */
  readonly failed: number;
  /** Let go, because they still ran at the limit. */
  readonly late: number;
  readonly seconds: number;
  /** From the request's first byte to the answer's first event. */
  readonly firstMs: readonly number[];
  /** From the provider's write to the client's read, of some of the chunks. */
  readonly oneWayMs: readonly number[];
}

const held: net.Socket[] = [];
let heldTally: ChunkTally | undefined;

answerParent(undefined, {
  closed: async ({ connections, seconds, keys, ...target }: ClosedLoop): Promise<Requests> => {
    const requests = (keys ?? [target.key]).map((key) => requestBytes({ ...target, key }));
    const beganAt = performance.now();
    const until = beganAt + seconds * 1000;
    const ms: number[] = [];
    let failed = 0;
    let asked = 0;
    const client = async (): Promise<void> => {
      const connection = new Connection(target.port);
      for (let now = performance.now(); now < until; now = performance.now()) {
        const request = requests[asked++ % requests.length] ?? Buffer.alloc(0);
        const isOk = await connection.ask(request);
        if (isOk) ms.push(performance.now() - now);
        else failed += 1;
      }
      connection.close();
    };
    await Promise.all(Array.from({ length: connections }, client));
    return { answered: ms.length, failed, seconds: (performance.now() - beganAt) / 1000, ms };
  },

  open: async ({ perSecond, seconds, ...target }: OpenLoop): Promise<Requests> => {
    const request = requestBytes(target);
    const idle: Connection[] = [];
    const ms: number[] = [];
    let failed = 0;
    const one = async (): Promise<void> => {
      const connection = idle.pop() ?? new Connection(target.port);
      const from = performance.now();
      const isOk = await connection.ask(request);
      if (isOk) ms.push(performance.now() - from);
      else failed += 1;
      idle.push(connection);
    };
    const running: Promise<void>[] = [];
    const beganAt = performance.now();
    const all = perSecond * seconds;
    while (running.length < all) {
      const due = Math.min(all, ((performance.now() - beganAt) / 1000) * perSecond);
      while (running.length < due) running.push(one());
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await Promise.all(running);
    for (const connection of idle) connection.close();
    return { answered: ms.length, failed, seconds: (performance.now() - beganAt) / 1000, ms };
  },

  streams: async ({ streams, seconds, mostSeconds, ...target }: Streams & Limit): Promise<Chunks> => {
    const tally = new ChunkTally(mostSeconds);
    const request = requestBytes(target);
    const until = performance.now() + seconds * 1000;
    const client = async (): Promise<void> => {
      while (performance.now() < until) await tally.stream(target.port, request);
    };
    // Not all in one moment: their ticks would come in one moment too.
    const clients: Promise<void>[] = [];
    for (let n = 0; n < streams; n++) {
      clients.push(client());
      if (n % 8 === 7) await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await Promise.all(clients);
    return tally.result();
  },

  steady: async ({ perSecond, seconds, mostSeconds, ...target }: OpenLoop & Limit): Promise<Chunks> => {
    const tally = new ChunkTally(mostSeconds);
    const request = requestBytes(target);
    const running: Promise<void>[] = [];
    const beganAt = performance.now();
    const all = perSecond * seconds;
    while (running.length < all) {
      const due = Math.min(all, ((performance.now() - beganAt) / 1000) * perSecond);
      while (running.length < due) running.push(tally.stream(target.port, request));
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await Promise.all(running);
    return tally.result();
  },

  /** Says how many streams stand: fewer than were asked for where some failed, or their first bytes took too long. */
  hold: async ({
    streams,
    mostSeconds = Infinity,
    ...target
  }: Omit<Streams, 'seconds'> & Limit): Promise<number> => {
    const request = requestBytes(target);
    const until = performance.now() + mostSeconds * 1000;
    const begunSockets = new Set<net.Socket>();
    const one = (): Promise<void> =>
      new Promise((resolve) => {
        const socket = net.connect(target.port, '127.0.0.1');
        held.push(socket);
        socket.on('error', () => {});
        socket.once('close', () => resolve());
        socket.once('data', (bytes) => {
          if (bytes.toString('latin1', 0, OK.length) === OK) begunSockets.add(socket);
          resolve();
        });
        socket.on('data', (bytes) => heldTally?.read(bytes));
        socket.write(request);
      });
    for (let left = streams; left > 0 && performance.now() < until; left -= AT_ONCE) {
      const begun = Promise.all(Array.from({ length: Math.min(left, AT_ONCE) }, one));
      const limit = mostSeconds === Infinity ? [] : [sleep(until - performance.now())];
      await Promise.race([begun, ...limit]);
    }
    return [...begunSockets].filter(({ destroyed }) => !destroyed).length;
  },

  watch: async ({ seconds }: Watch): Promise<Chunks> => {
    const tally = new ChunkTally();
    heldTally = tally;
    await sleep(seconds * 1000);
    heldTally = undefined;
    return { ...tally.result(), failed: held.filter(({ destroyed }) => destroyed).length };
  },

  release: () => {
    for (const socket of held.splice(0)) socket.destroy();
  },
});

/** Streams whose beginning is awaited together. */
const AT_ONCE = 16;

const DATA = Buffer.from('data: ');
const TIME = Buffer.from('"id":"t');
const HEAD_END = Buffer.from('\r\n\r\n');
/** Longer than what follows `[DONE]`. */
const END_BYTES = 64;
const LAST_CHUNK = Buffer.from('\r\n0\r\n\r\n');
const OK = 'HTTP/1.1 200';
const CONTENT_LENGTH = /\r\ncontent-length: *(\d+)/i;

/** What streams were received, and when. */
class ChunkTally {
  readonly #beganAt = performance.now();
  readonly #firstMs: number[] = [];
  readonly #oneWayMs: number[] = [];
  #streams = 0;
  #chunks = 0;
  #failed = 0;
  #late = 0;
  readonly #endsAt: number;

  constructor(mostSeconds = Infinity) {
    this.#endsAt = this.#beganAt + mostSeconds * 1000;
  }

  /** Asks for one stream, on a connection of its own, and reads it to its end. */
  async stream(port: number, request: Buffer): Promise<void> {
    const connection = new Connection(port);
    await connection.open();
    let isLate = false;
    const letGo = (): void => {
      isLate = true;
      connection.close();
    };
    const leftMs = this.#endsAt - performance.now();
    const limit = Number.isFinite(leftMs) ? setTimeout(letGo, leftMs) : undefined;
    const from = performance.now();
    let isFirst = true;
    let end = '';
    const isOk = await connection.ask(request, (bytes) => {
      if (isFirst && bytes.includes(DATA)) {
        isFirst = false;
        this.#firstMs.push(performance.now() - from);
      }
      end = (end + bytes.toString('latin1', Math.max(0, bytes.length - END_BYTES))).slice(-END_BYTES);
      this.read(bytes);
    });
    clearTimeout(limit);
    // A gateway that gives up says so in an event, under a 200.
    if (isOk && end.includes('[DONE]')) this.#streams += 1;
    else if (isLate) this.#late += 1;
    else this.#failed += 1;
    connection.close();
  }

  /** Counts the chunks of what came, and looks when the first of them left. */
  read(bytes: Buffer): void {
    this.#chunks += countOf(bytes, DATA);
    const at = bytes.indexOf(TIME);
    if (at === -1) return;
    const start = at + TIME.length;
    const sentAt = Number(bytes.toString('latin1', start, bytes.indexOf('"', start)));
    const late = (Number(process.hrtime.bigint()) - sentAt) / 1e6;
    if (late < 60_000) this.#oneWayMs.push(late);
  }

  result(): Chunks {
    return {
      streams: this.#streams,
      chunks: this.#chunks,
      failed: this.#failed,
      late: this.#late,
      seconds: (performance.now() - this.#beganAt) / 1000,
      firstMs: this.#firstMs,
      oneWayMs: this.#oneWayMs,
    };
  }
}

/** Takes one request at a time; an answer ends by its length, or by its last chunk. */
class Connection {
  readonly #port: number;
  #socket: net.Socket | undefined;
  #onBytes: (bytes: Buffer) => void = () => {};
  #onLost: () => void = () => {};

  constructor(port: number) {
    this.#port = port;
  }

  /** Sends a request; resolves at its answer's end, to whether that was a 200 and whole. */
  ask(request: Buffer, onBytes: (bytes: Buffer) => void = () => {}): Promise<boolean> {
    const socket = this.#open();
    return new Promise((resolve) => {
      let head = '';
      let missing = -1;
      let tail: Buffer = Buffer.alloc(0);
      this.#onLost = () => resolve(false);
      this.#onBytes = (bytes) => {
        let body = bytes;
        if (head === '') {
          const at = bytes.indexOf(HEAD_END);
          head = bytes.toString('latin1', 0, at === -1 ? undefined : at);
          body = bytes.subarray(at + 2);
          missing = Number(CONTENT_LENGTH.exec(head)?.[1] ?? -1);
          if (missing !== -1) missing += 2;
        }
        onBytes(body);
        if (missing !== -1) {
          missing -= body.length;
          if (missing > 0) return;
        } else {
          tail = body.length >= LAST_CHUNK.length ? body : Buffer.concat([tail, body]);
          tail = tail.subarray(-LAST_CHUNK.length);
          if (!tail.equals(LAST_CHUNK)) return;
        }
        resolve(head.startsWith(OK));
      };
      socket.write(request);
    });
  }

  /** Connects, so that no request's time is a connection's. */
  async open(): Promise<void> {
    const socket = this.#open();
    if (socket.connecting)
      await Promise.race([once(socket, 'connect'), once(socket, 'close')]).catch(() => {});
  }

  close(): void {
    this.#socket?.destroy();
  }

  #open(): net.Socket {
    if (this.#socket && !this.#socket.destroyed) return this.#socket;
    const socket = net.connect({ port: this.#port, host: '127.0.0.1', noDelay: true });
    socket.on('error', () => {});
    socket.on('data', (bytes) => this.#onBytes(bytes));
    socket.on('close', () => this.#onLost());
    this.#socket = socket;
    return socket;
  }
}

function countOf(bytes: Buffer, needle: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(needle); at !== -1; at = bytes.indexOf(needle, at + needle.length)) count += 1;
  return count;
}

/** A prompt as agents send it: several messages, some of the text not ASCII. */
function requestBytes({ path, key, model, bytes, headers }: Target): Buffer {
  const isStream = model.startsWith('stream');
  const start = `{"model":"${model}",${isStream ? '"stream":true,' : ''}"temperature":0.7,"max_tokens":500,"messages":[`;
  const messages: string[] = ['{"role":"system","content":"You answer in few words."}'];
  let length = Buffer.byteLength(start + messages[0]) + 2;
  for (let turn = 0; length < bytes; turn++) {
    const text = 'Où est « la gare », and when does the next train leave for Zürich? '
      .repeat(30)
      .slice(0, Math.max(1, Math.min(2000, bytes - length - 40)));
    const message = `{"role":"${turn % 2 === 0 ? 'user' : 'assistant'}","content":"${text}"}`;
    messages.push(message);
    length += Buffer.byteLength(message) + 1;
  }
  const body = Buffer.from(`${start}${messages.join(',')}]}`);
  const head =
    `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\n` +
    `accept: application/json\r\nuser-agent: bench\r\n${Object.entries(headers)
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('')}content-length: ${body.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), body]);
}
