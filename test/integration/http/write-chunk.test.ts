import { once } from 'node:events';
import * as http from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { duplexPair } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';

import { afterEach, expect, it, vi } from 'vitest';

import { MAX_FRAMED_BYTES, writeChunk } from '../../../src/http/write-chunk.ts';
import { mountAfter, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerStream, STREAM } from '../../helpers/provider.ts';
import { exchangeRaw } from '../../helpers/raw-http.ts';

type Answer = (response: http.ServerResponse) => unknown;

let server: http.Server | undefined;

afterEach(() => {
  server?.close();
  vi.restoreAllMocks();
});

/** Starts the server; returns its port. */
async function start(answer: Answer): Promise<number> {
  server = http.createServer((_request, response) => {
    response.sendDate = false;
    answer(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** The bytes that a client gets. */
async function bytesOf(answer: Answer, version = '1.1'): Promise<string> {
  const port = await start(answer);
  const bytes = await exchangeRaw(port, `GET / HTTP/${version}\r\nhost: a\r\nconnection: close\r\n\r\n`);
  server?.close();
  return bytes;
}

function chunkOf(length: number): Buffer {
  return Buffer.alloc(length, 'data: ~é\r\n');
}

/** Lengths at which a frame has more digits, or is Node's. */
const LENGTHS = [1, 15, 16, 255, 256, 4095, MAX_FRAMED_BYTES, MAX_FRAMED_BYTES + 1, 70_000];

type Write = (chunk: Buffer) => boolean;

/** Has the same written by Node, and by `writeChunk`; tells what either client got. */
async function bothOf(
  answer: (response: http.ServerResponse, write: Write) => unknown,
  version?: string,
): Promise<readonly [node: string, ours: string]> {
  return [
    await bytesOf((response) => answer(response, (chunk) => response.write(chunk)), version),
    await bytesOf((response) => answer(response, (chunk) => writeChunk(response, chunk)), version),
  ];
}

it('writes what Node writes, chunk by chunk', async () => {
  const [node, ours] = await bothOf(async (response, write) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const length of LENGTHS) {
      write(chunkOf(length));
      // Node 26 joins what is written in one turn.
      await turn();
    }
    write(chunkOf(0));
    response.end('data: [DONE]\n\n');
  });
  expect(node).toContain('\r\n\r\n1\r\nd\r\nf\r\ndata: ~');
  expect(ours).toBe(node);
});

it('writes what Node writes where the head was sent before', async () => {
  const [node, ours] = await bothOf(async (response, write) => {
    response.writeHead(200);
    response.flushHeaders();
    write(chunkOf(300));
    await turn();
    write(chunkOf(3));
    response.end();
  });
  expect(node).toContain('\r\n12c\r\n');
  expect(ours).toBe(node);
});

// Node 26 corks a response until the turn ends, Node 22 and 24 only its socket.
it('keeps the order of long and short chunks in one turn', async () => {
  const chunks = LENGTHS.toReversed().flatMap((length) => [chunkOf(length), Buffer.from(`${length}`)]);
  const port = await start((response) => {
    response.writeHead(200);
    for (const chunk of chunks) writeChunk(response, chunk);
    response.end();
  });
  const answer = await fetch(`http://127.0.0.1:${port}`);
  expect(await answer.text()).toBe(Buffer.concat(chunks).toString());
});

it.each([
  ['a client of HTTP/1.0', '1.0', {}],
  ['an answer with a length', '1.1', { 'content-length': '300' }],
])('frames nothing for %s', async (_of, version, headers) => {
  const [node, ours] = await bothOf((response, write) => {
    response.writeHead(200, headers);
    write(chunkOf(300));
    response.end();
  }, version);
  expect(node).toMatch(/\r\n\r\ndata: ~/);
  expect(ours).toBe(node);
});

it('keeps the order where the app has corked the response', async () => {
  const [node, ours] = await bothOf((response, write) => {
    response.writeHead(200);
    response.flushHeaders();
    response.cork();
    write(chunkOf(MAX_FRAMED_BYTES + 1));
    write(Buffer.from('last'));
    response.uncork();
    response.end();
  });
  expect(node).toMatch(/last\r\n0\r\n\r\n$/);
  expect(ours).toBe(node);
});

it('leaves an answer that waits for the one before it to Node, after what else waits', async () => {
  const responses: http.ServerResponse[] = [];
  const port = await start((response) => responses.push(response));
  const client = connect(port, '127.0.0.1');
  const first = 'GET /1 HTTP/1.1\r\nhost: a\r\n\r\n';
  client.write(`${first}GET /2 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`);
  await expect.poll(() => responses.length).toBe(2);
  const [before, response] = responses;
  response?.writeProcessing();
  response?.writeHead(200);
  if (response) writeChunk(response, Buffer.from('one'));
  before?.end();
  if (response) writeChunk(response, Buffer.from('two'));
  response?.end();
  const bytes = (await client.toArray()).join('');
  expect(bytes).toMatch(
    /HTTP\/1.1 102 Processing\r\n\r\nHTTP\/1.1 200 OK\r\n[^]*\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n$/,
  );
});

it('leaves a connection that is no socket to Node, whose parts it may tell apart', async () => {
  const [ours, theirs] = duplexPair();
  const parts = vi.spyOn(ours, 'write');
  await start(async (response) => {
    response.writeHead(200);
    writeChunk(response, Buffer.from('one'));
    await turn();
    writeChunk(response, Buffer.from('two'));
    response.end();
  });
  server?.emit('connection', ours);
  theirs.write('GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n');
  expect((await theirs.toArray()).join('')).toMatch(/\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n$/);
  const written = parts.mock.calls.map(([part]) => String(part));
  expect(written).toEqual(expect.arrayContaining(['3', 'two']));
});

it('passes a `write` that an agent has wrapped before the router was loaded the bytes alone', async () => {
  const { prototype } = http.OutgoingMessage;
  // oxlint-disable-next-line typescript/unbound-method -- it is called with its response
  const { write } = prototype;
  const seen: string[] = [];
  prototype.write = function wrapped(this: http.OutgoingMessage, chunk: unknown): boolean {
    seen.push(String(chunk));
    return write.call(this, chunk, 'utf8');
  };
  try {
    const again: string = '../../../src/http/write-chunk.ts?again';
    const loaded = (await import(again)) as { readonly writeChunk: typeof writeChunk };
    await bytesOf((response) => {
      response.writeHead(200);
      loaded.writeChunk(response, Buffer.from('one'));
      response.end();
    });
  } finally {
    prototype.write = write;
  }
  expect(seen).toEqual(['one']);
});

it('passes a `write` that a middleware has replaced the bytes alone', async () => {
  const seen: unknown[] = [];
  const bytes = await bytesOf((response) => {
    const write = response.write.bind(response);
    response.write = (chunk: unknown): boolean => {
      seen.push(String(chunk));
      return write(`${String(chunk).toUpperCase()}!`);
    };
    response.writeHead(200);
    writeChunk(response, Buffer.from('one'));
    response.end();
  });
  expect(seen).toEqual(['one']);
  expect(bytes).toMatch(/\r\n4\r\nONE!\r\n0\r\n\r\n$/);
});

it('is one write to the socket, where Node makes four', async () => {
  const writes: number[] = [];
  await bothOf(async (response, write) => {
    response.writeHead(200);
    response.flushHeaders();
    const { socket } = response;
    if (!socket) throw new Error('There is no socket');
    const spy = vi.spyOn(socket, 'write');
    write(chunkOf(300));
    await turn();
    writes.push(spy.mock.calls.length);
    response.end();
  });
  expect(writes).toEqual([4, 1]);
});

it('lets Node frame what comes after a `write` that throws', async () => {
  const bytes = await bytesOf((response) => {
    response.writeHead(200);
    response.flushHeaders();
    const { socket } = response;
    if (!socket) throw new Error('There is no socket');
    const spy = vi.spyOn(socket, 'write').mockImplementationOnce(() => {
      throw new Error('no');
    });
    expect(() => writeChunk(response, chunkOf(5))).toThrow('no');
    spy.mockRestore();
    response.end('end');
  });
  expect(bytes).toMatch(/\r\n\r\n3\r\nend\r\n0\r\n\r\n$/);
});

it('says when a client does not read, as Node does', async () => {
  const said: boolean[][] = [];
  await bothOf((response, write) => {
    response.writeHead(200);
    const answers = Array.from({ length: 100 }, () => write(chunkOf(MAX_FRAMED_BYTES)));
    said.push(answers);
    response.once('drain', () => response.end());
  });
  const [node, ours] = said;
  expect(ours).toEqual(node);
  expect(new Set(ours)).toEqual(new Set([true, false]));
});

it('has each chunk of a stream leave as one write', async () => {
  const written: string[] = [];
  const seeWrites = mountAfter((_request, { socket }) => {
    if (!socket) throw new Error('There is no socket');
    const write = socket.write.bind(socket);
    vi.spyOn(socket, 'write').mockImplementation((...parts: Parameters<typeof write>) => {
      written.push(String(parts[0]));
      return write(...parts);
    });
  });
  const gateway = await startGateway({}, seeWrites);
  try {
    gateway.provider.script = answerStream(STREAM, 2);
    const response = await gateway.post({ ...QUESTION, stream: true });
    expect(await response.text()).toContain('[DONE]');
    // Node 26 writes what comes in the same turn as the first one.
    const frames = written.filter((bytes) => /^[0-9a-f]+\r\ndata: [^]*\n\n\r\n$/.test(bytes));
    expect(frames.length).toBeGreaterThan(3);
  } finally {
    await gateway.close();
  }
});
