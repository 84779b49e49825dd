import { once } from 'node:events';
import * as http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { leaveTogether } from '../../../src/http/leave-together.ts';
import { mountAfter, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerStream, STREAM } from '../../helpers/provider.ts';

let server: http.Server;
let responses: http.ServerResponse[];

beforeEach(async () => {
  responses = [];
  server = http.createServer((_request, response) => {
    responses.push(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});

afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
});

/** Asks for two answers; returns them, and what their clients have read. */
async function twoAnswers(): Promise<{ sockets: (Socket | null)[]; read: string[] }> {
  const read = ['', ''];
  for (const n of [0, 1]) {
    const request = http.request({ port: (server.address() as AddressInfo).port, agent: false });
    request.on('error', () => {});
    request.on('response', (answer) => {
      answer.on('data', (bytes: Buffer) => (read[n] += bytes.toString()));
      answer.on('error', () => {});
    });
    request.end();
    await expect.poll(() => responses.length).toBe(n + 1);
  }
  return { sockets: responses.map(({ socket }) => socket), read };
}

describe('what is written to several responses in one turn', () => {
  it('leaves at the end of the turn', async () => {
    const { sockets, read } = await twoAnswers();
    const lengths = (): (number | undefined)[] => sockets.map((socket) => socket?.writableCorked);
    for (const response of responses) {
      leaveTogether(response);
      response.write('one ');
    }
    await Promise.resolve();
    expect(lengths()).toEqual([1, 1]);
    for (const response of responses) {
      leaveTogether(response);
      response.write('two');
    }
    expect(lengths()).toEqual([1, 1]);
    await turn();
    expect(lengths()).toEqual([0, 0]);
    await expect.poll(() => read).toEqual(['one two', 'one two']);
  });

  it('leaves at once where a response ends', async () => {
    const { sockets, read } = await twoAnswers();
    const [first, second] = responses;
    for (const response of responses) {
      leaveTogether(response);
      response.write('one ');
    }
    first?.end('end');
    expect(sockets.map((socket) => socket?.writableCorked)).toEqual([0, 1]);
    second?.destroy();
    await turn();
    await expect.poll(() => read[0]).toBe('one end');
  });
});

describe('a connection that is no socket', () => {
  it('is not held back: it may throw when it writes', async () => {
    const [ours, theirs] = duplexPair();
    server.emit('connection', ours);
    theirs.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
    await expect.poll(() => responses.length).toBe(1);
    const [response] = responses;
    if (!response) throw new Error('There is no response');
    leaveTogether(response);
    expect(response.socket?.writableCorked).toBe(0);
    theirs.destroy();
    ours.destroy();
  });
});

describe('fake timers of an app', () => {
  it('hold back nothing', async () => {
    const { read } = await twoAnswers();
    const [first] = responses;
    if (!first) throw new Error('There is no response');
    vi.useFakeTimers();
    try {
      leaveTogether(first);
      first.write('one');
    } finally {
      vi.useRealTimers();
    }
    await expect.poll(() => read[0]).toBe('one');
  });
});

describe('the chunks of a stream', () => {
  it('leave at the end of the turn', async () => {
    const corked: (number | undefined)[] = [];
    const seeWrites = mountAfter((_request, response) => {
      const write = response.write.bind(response);
      response.write = (chunk: unknown): boolean => {
        // Node itself lets it leave at the next tick.
        process.nextTick(() => process.nextTick(() => corked.push(response.socket?.writableCorked)));
        return write(chunk);
      };
    });
    const gateway = await startGateway({}, seeWrites);
    try {
      gateway.provider.script = answerStream(STREAM, 2);
      const response = await gateway.post({ ...QUESTION, stream: true });
      expect(await response.text()).toContain('[DONE]');
      // The first one leaves at once, and the last one may come with the end, which lets it leave.
      expect(corked.length).toBeGreaterThan(3);
      expect(corked.slice(1, -1)).toEqual(corked.slice(2).map(() => 1));
    } finally {
      await gateway.close();
    }
  });
});
