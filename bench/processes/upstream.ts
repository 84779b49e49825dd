/**
 * A provider on raw sockets, cheap enough not to be what is measured.
 *
 * What it answers stands in the request's model: `json-1200` is an answer of so many bytes, `stream-50-20` one of 50 chunks
 * with 20 ms between them. Each chunk says when it left, in ns of the system's monotonic clock.
 */
import * as net from 'node:net';

import { answerParent } from './parent.ts';

const CONTENT_LENGTH = /\r\ncontent-length: *(\d+)/i;
const USAGE = '"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}';
const MODEL_KEY = Buffer.from('"model":"');
const HEAD_END = Buffer.from('\r\n\r\n');

const streams = { open: 0 };

const server = net.createServer({ noDelay: true }, (socket) => {
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
});

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
  const start =
    '{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop",' +
    '"message":{"role":"assistant","content":"';
  const end = `"}}],${USAGE}}`;
  const body = start + 'word '.repeat(size).slice(0, Math.max(0, size - start.length - end.length)) + end;
  return Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
}

const STREAM_HEAD =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n';
// LiteLLM takes a hundred chunks that are all the same for a model that hangs, and breaks off.
const FILLERS = ['x'.repeat(40), 'y'.repeat(40)];

/** An interval of 0 sends all chunks at once, as fast as they are read. */
function stream(socket: net.Socket, count: number, intervalMs: number): void {
  let sent = 0;
  let timer: NodeJS.Timeout | undefined;
  streams.open += 1;
  socket.once('close', () => {
    clearInterval(timer);
    if (sent < count) streams.open -= 1;
  });
  const next = (): boolean => {
    sent += 1;
    const isLast = sent === count;
    const head = sent === 1 ? STREAM_HEAD : '';
    const more = socket.write(head + chunk(event(sent)) + (isLast ? end() : ''));
    if (isLast) {
      streams.open -= 1;
      clearInterval(timer);
    }
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
  next();
  if (sent < count) timer = setInterval(next, intervalMs);
}

function event(n: number): string {
  return (
    `data: {"id":"t${process.hrtime.bigint()}","object":"chat.completion.chunk","created":1790000000,"model":"stream",` +
    `"choices":[{"index":0,"delta":{"content":"${FILLERS[n % 2]}"},"logprobs":null,"finish_reason":null}],"usage":null}\n\n`
  );
}

function end(): string {
  const last = '{"id":"e","object":"chat.completion.chunk","created":1,"model":"stream"';
  return (
    chunk(`data: ${last},"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n`) +
    chunk(`data: ${last},"choices":[],${USAGE}}\n\ndata: [DONE]\n\n`) +
    '0\r\n\r\n'
  );
}

function chunk(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n`;
}

server.listen(0, '127.0.0.1', 8192, () => {
  answerParent(server, { streams: () => streams.open });
});
