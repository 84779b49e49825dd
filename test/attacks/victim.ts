import { fork } from 'node:child_process';
import { once } from 'node:events';
import * as net from 'node:net';

import type { Taken, VictimOptions } from './victim-process.ts';

/** A router in a process of its own that is attacked over real sockets. */
export interface Victim {
  readonly port: number;
  /** Of five accounts. */
  readonly keys: readonly string[];
  /** What it took since the last time. With `watch`, its turns are measured from now on. */
  taken(watch?: 'watch'): Promise<Taken>;
  /** Opens a connection, on which a request may be written as its bytes are. */
  connect(): net.Socket;
  /** Whether it still runs. */
  isAlive(): boolean;
  stop(): Promise<void>;
}

/** @param heapMb - the limit of its heap, in MB */
export async function startVictim(options: VictimOptions, heapMb: number): Promise<Victim> {
  const child = fork(new URL('victim-process.ts', import.meta.url), [JSON.stringify(options)], {
    execArgv: [`--max-old-space-size=${heapMb}`, '--no-warnings'],
    // What V8 says of a heap that is full is expected of some.
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  const [{ port, keys }] = (await once(child, 'message')) as [{ port: number; keys: string[] }];
  const dead = once(child, 'exit').then(() => {
    throw new Error('The victim died');
  });
  dead.catch(() => {});
  return {
    port,
    keys,
    taken: async (watch) => {
      if (child.exitCode !== null || child.signalCode !== null) throw new Error('The victim is dead');
      child.send(watch ?? 'report');
      const [taken] = (await Promise.race([once(child, 'message'), dead])) as [Taken];
      return taken;
    },
    connect: () => {
      const socket = net.connect(port, '127.0.0.1');
      socket.on('error', () => {});
      return socket;
    },
    isAlive: () => child.exitCode === null && child.signalCode === null,
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
  };
}

/** The head of a request for a completion, up to the blank line. */
export function headOf(key: string, headers: readonly string[]): string {
  return [
    'POST /v1/chat/completions HTTP/1.1',
    'host: victim',
    'content-type: application/json',
    `authorization: Bearer ${key}`,
    ...headers,
    '',
    '',
  ].join('\r\n');
}

/** Writes as much as the other side takes, and waits for it, until it takes nothing any more. */
export async function writeAll(socket: net.Socket, pieces: Iterable<string | Buffer>): Promise<void> {
  let wake = (): void => {};
  const onFree = (): void => {
    wake();
  };
  socket.on('drain', onFree).on('close', onFree);
  for (const piece of pieces) {
    if (socket.destroyed) break;
    if (!socket.write(piece)) await new Promise<void>((resolve) => (wake = resolve));
  }
  socket.off('drain', onFree).off('close', onFree);
}

export interface RawAnswer {
  readonly status: number;
  readonly text: string;
}

/** The answer that comes, up to its end or to that of its connection. */
export function answerOn(socket: net.Socket): Promise<RawAnswer> {
  return new Promise((resolve) => {
    const chunks: string[] = [];
    let received = 0;
    let tail = '';
    let expected = Infinity;
    const onEnd = (): void => {
      socket.off('data', onData).off('close', onEnd);
      const answer = chunks.join('');
      resolve({ status: Number(/^HTTP\/1.1 (\d+)/.exec(answer)?.[1] ?? 0), text: answer });
    };
    const onData = (chunk: Buffer): void => {
      const piece = chunk.toString('latin1');
      chunks.push(piece);
      received += piece.length;
      tail = (tail + piece).slice(-5);
      if (expected === Infinity && received < 65_536) expected = lengthOf(chunks.join(''));
      if (received >= expected || tail === '0\r\n\r\n') onEnd();
    };
    socket.on('data', onData).on('close', onEnd);
  });
}

/** Of an answer, as its head says it. */
function lengthOf(answer: string): number {
  const head = answer.indexOf('\r\n\r\n');
  const length = head === -1 ? undefined : /content-length: (\d+)/i.exec(answer.slice(0, head))?.[1];
  return length === undefined ? Infinity : head + 4 + Number(length);
}

/** A body of so many bytes that is a request, the long part of it in its one message. */
export function bodyOf(bytes: number): string {
  const [begin, end] = ['{"model":"acme/fast","messages":[{"role":"user","content":"', '"}]}'];
  return begin + 'x'.repeat(bytes - begin.length - end.length) + end;
}

/** In chunks of HTTP that have so many bytes each, together in pieces that a socket takes at once. */
export function* chunked(body: string | Buffer, size: number): Generator<Buffer> {
  const bytes = Buffer.from(body);
  let lines: Buffer[] = [];
  let length = 0;
  for (let at = 0; at < bytes.length; at += size) {
    const part = bytes.subarray(at, at + size);
    lines.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n'));
    length += part.length + 6;
    if (length < 65_536) continue;
    yield Buffer.concat(lines);
    lines = [];
    length = 0;
  }
  yield Buffer.concat([...lines, Buffer.from('0\r\n\r\n')]);
}
