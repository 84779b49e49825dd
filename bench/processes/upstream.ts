/**
 * A provider on raw sockets, cheap enough not to be what is measured.
 *
 * What it answers stands in the request's model: `json-1200` is an answer of 1,200 bytes, `stream-50-20` one of 50 chunks
 * with 20 ms between them. Each chunk says when it left, in ns of the system's monotonic clock.
 *
 * `upstream.ts CERTIFICATE KEY` listens on three ports: plain HTTP, TLS, and TLS with HTTP/2.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import * as net from 'node:net';
import * as tls from 'node:tls';

import { startHttp2Provider } from './http2-provider.ts';
import { answerParent, portOf } from './parent.ts';
import { event, JSON_START, LAST_EVENTS, USAGE } from './provider-answers.ts';

const CONTENT_LENGTH = /\r\ncontent-length: *(\d+)/i;
const MODEL_KEY = Buffer.from('"model":"');
const HEAD_END = Buffer.from('\r\n\r\n');

const streams = { open: 0 };

function serve(socket: net.Socket): void {
  let pieces: Buffer[] = [];
  let length = 0;
  let missing = 0;
  socket.on('error', () => {});
  socket.on('data', (bytes) => {
    pieces.push(bytes);
    length += bytes.length;
    if (length < missing) return;
    const request = pieces.length === 1 ? bytes : Buffer.concat(pieces);
    const headEnd = request.indexOf(HEAD_END);
    if (headEnd === -1) {
      pieces = [request];
      return;
    }
    const head = request.toString('latin1', 0, headEnd);
    missing = headEnd + 4 + Number(CONTENT_LENGTH.exec(head)?.[1] ?? 0);
    if (length < missing) {
      pieces = [request];
      return;
    }
    pieces = [];
    length = 0;
    missing = 0;
    answer(socket, modelOf(request.subarray(headEnd + 4)));
  });
}

/** The model's name is short and near one of the ends of a body: a search through a large one would be measured. */
function modelOf(body: Buffer): string {
  const at = body.indexOf(MODEL_KEY) + MODEL_KEY.length;
  return body.toString('latin1', at, body.indexOf('"', at));
}

const jsonAnswers = new Map<number, Buffer>();

function answer(socket: net.Socket, model: string): void {
  const [kind, first, second] = model.split('-');
  if (kind === 'stream') {
    stream(socket, Number(first), Number(second));
    return;
  }
  const size = Number(first);
  let bytes = jsonAnswers.get(size);
  if (!bytes) {
    bytes = jsonAnswer(size);
    jsonAnswers.set(size, bytes);
  }
  socket.write(bytes);
}

function jsonAnswer(size: number): Buffer {
  const end = `"}}],${USAGE}}`;
  const length = Math.max(0, size - JSON_START.length - end.length);
  const body = JSON_START + 'word '.repeat(size).slice(0, length) + end;
  return Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
}

const STREAM_HEAD =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n';

let begun = 0;

/**
 * An interval of 0 sends all chunks at once, as fast as they are read.
 *
 * Those of streams that begin together don't leave together, as those of different models don't: the first interval of each stream
 * has another length. Each chunk is due at a time of its own, because intervals, which begin when a timer runs, fall into step.
 */
function stream(socket: net.Socket, count: number, intervalMs: number): void {
  let sent = 0;
  let timer: NodeJS.Timeout | undefined;
  streams.open += 1;
  socket.once('close', () => {
    clearTimeout(timer);
    if (sent < count) streams.open -= 1;
  });
  const next = (): boolean => {
    sent += 1;
    const isLast = sent === count;
    const head = sent === 1 ? STREAM_HEAD : '';
    const more = socket.write(head + chunk(event(sent)) + (isLast ? end() : ''));
    if (isLast) streams.open -= 1;
    return more;
  };
  if (intervalMs === 0) {
    const pump = (): void => {
      for (let left = count - sent; left > 0 && !socket.destroyed; left--) {
        if (next()) continue;
        if (left > 1) socket.once('drain', pump);
        return;
      }
    };
    pump();
    return;
  }
  begun += 1;
  let dueAt = performance.now() + ((begun * PHASE) % 1) * intervalMs;
  const tick = (): void => {
    next();
    if (sent === count) return;
    timer = setTimeout(tick, Math.max(1, dueAt - performance.now()));
    dueAt += intervalMs;
  };
  tick();
}

/** The golden ratio's: its multiples are spread evenly, however many there are. */
const PHASE = 0.618;

function end(): string {
  return `${LAST_EVENTS.map(chunk).join('')}0\r\n\r\n`;
}

function chunk(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n`;
}

const [certFile = '', keyFile = ''] = process.argv.slice(2);
const certificate = { cert: readFileSync(certFile), key: readFileSync(keyFile) };
const plain = net.createServer({ noDelay: true }, serve);
const secure = tls.createServer({ ...certificate, noDelay: true, ALPNProtocols: ['http/1.1'] }, serve);
const http2 = await startHttp2Provider(certificate);
await Promise.all([plain, secure].map((server) => once(server.listen(0, '127.0.0.1', 8192), 'listening')));
answerParent(plain, {
  streams: () => streams.open,
  ports: () => ({ tls: portOf(secure), http2: http2.port }),
  http2Connections: () => http2.connections(),
});
