import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import * as tls from 'node:tls';

import { type Certificate, createAuthority, type Authority } from './certificates.ts';
import { COMPLETION } from './http2-provider.ts';

const TYPES = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6 } as const;
const ACK = 1;
const END_STREAM = 1;
const END_HEADERS = 4;
const MAX_CONCURRENT_STREAMS = 3;
const PREFACE_BYTES = 24;
const FRAME_HEAD_BYTES = 9;

interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

/** One request of a raw provider, which is answered frame by frame. */
export interface RawStream {
  /** Which connection it came over: the first is 1. */
  readonly connection: number;
  head(status: number, headers?: Readonly<Record<string, string>>): void;
  /** @param isLast - with END_STREAM */
  data(text: string, isLast?: boolean): void;
  /** RST_STREAM. */
  reset(code: number): void;
}

export interface RawHttp2Options {
  /** Answers a request that came whole. */
  readonly onRequest?: (stream: RawStream) => void;
  /** Answers a request whose headers came. */
  readonly onHead?: (stream: RawStream) => void;
  readonly maxConcurrentStreams?: number;
  /** Connections, by number, that are silent after the TLS handshake: no settings, no answer. */
  readonly isSilent?: (connection: number) => boolean;
}

/** A provider by frames of HTTP/2: it does what no library would do. Windows are never opened further. */
export interface RawHttp2Provider {
  readonly baseURL: string;
  /** The authority of its certificate, as PEM. */
  readonly ca: string;
  /** Connections that there were. */
  connections(): number;
  openConnections(): number;
  close(): Promise<void>;
}

/** Of this process, as making one takes a while. */
let authority: Authority | undefined;
let certificate: Certificate | undefined;

export async function startRawHttp2Provider(options: RawHttp2Options): Promise<RawHttp2Provider> {
  authority ??= createAuthority();
  certificate ??= authority.issue('DNS:localhost');
  const open = new Set<tls.TLSSocket>();
  let connections = 0;
  const server = tls.createServer({ ...certificate, ALPNProtocols: ['h2'] }, (socket) => {
    connections += 1;
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    socket.on('error', () => {});
    if (options.isSilent?.(connections)) socket.resume();
    else serve(socket, connections, options);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    baseURL: `https://localhost:${(server.address() as AddressInfo).port}/v1`,
    ca: authority.ca,
    connections: () => connections,
    openConnections: () => open.size,
    close: async () => {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Answers with a completion. */
export function answerRaw(stream: RawStream): void {
  stream.head(200, { 'content-type': 'application/json' });
  stream.data(COMPLETION, true);
}

function serve(
  socket: tls.TLSSocket,
  connection: number,
  { onHead, onRequest, maxConcurrentStreams }: RawHttp2Options,
): void {
  const write = (type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): void => {
    if (!socket.writable) return;
    const head = Buffer.alloc(FRAME_HEAD_BYTES);
    head.writeUIntBE(payload.length, 0, 3);
    head.writeUInt8(type, 3);
    head.writeUInt8(flags, 4);
    head.writeUInt32BE(stream, 5);
    socket.write(Buffer.concat([head, payload]));
  };
  const streamOf = (id: number): RawStream => ({
    connection,
    head: (status, headers = {}) => {
      write(TYPES.headers, END_HEADERS, id, hpack({ ':status': String(status), ...headers }));
    },
    data: (text, isLast = false) => {
      write(TYPES.data, isLast ? END_STREAM : 0, id, Buffer.from(text));
    },
    reset: (code) => {
      write(TYPES.reset, 0, id, uint32(code));
    },
  });
  write(TYPES.settings, 0, 0, maxConcurrentStreams === undefined ? undefined : setting(maxConcurrentStreams));
  readFrames(socket, ({ type, flags, stream, payload }) => {
    if ((type === TYPES.settings || type === TYPES.ping) && !(flags & ACK)) {
      write(type, ACK, 0, type === TYPES.ping ? payload : undefined);
    }
    if (type === TYPES.headers) onHead?.(streamOf(stream));
    if ((type === TYPES.data || type === TYPES.headers) && flags & END_STREAM) onRequest?.(streamOf(stream));
  });
}

function readFrames(socket: tls.TLSSocket, onFrame: (frame: Frame) => void): void {
  let unread: Buffer = Buffer.alloc(0);
  let isBegun = false;
  socket.on('data', (chunk: Buffer) => {
    unread = Buffer.concat([unread, chunk]);
    if (!isBegun) {
      if (unread.length < PREFACE_BYTES) return;
      unread = unread.subarray(PREFACE_BYTES);
      isBegun = true;
    }
    while (unread.length >= FRAME_HEAD_BYTES) {
      const end = FRAME_HEAD_BYTES + unread.readUIntBE(0, 3);
      if (unread.length < end) return;
      const frame = {
        type: unread.readUInt8(3),
        flags: unread.readUInt8(4),
        stream: unread.readUInt32BE(5) & 0x7fff_ffff,
        payload: unread.subarray(FRAME_HEAD_BYTES, end),
      };
      unread = unread.subarray(end);
      onFrame(frame);
    }
  });
}

/** Literals without an index: names and values of up to 126 bytes. */
function hpack(headers: Readonly<Record<string, string>>): Buffer {
  const literal = (text: string): Buffer => Buffer.from(`${String.fromCodePoint(text.length)}${text}`);
  return Buffer.concat(
    Object.entries(headers).flatMap(([name, value]) => [Buffer.of(0), literal(name), literal(value)]),
  );
}

function setting(maxConcurrentStreams: number): Buffer {
  return Buffer.concat([Buffer.of(0, MAX_CONCURRENT_STREAMS), uint32(maxConcurrentStreams)]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
