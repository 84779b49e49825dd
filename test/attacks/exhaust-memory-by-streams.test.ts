import { once } from 'node:events';
import { brotliCompressSync, constants, createZstdCompress, gzipSync, zstdCompressSync } from 'node:zlib';

import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import {
  answerHead,
  type MaliciousProvider,
  repeated,
  startMaliciousProvider,
} from './malicious-provider.ts';
import { answerOn, bodyOf, headOf, startVictim, type Victim, writeAll } from './victim.ts';

const MIB = 1024 * 1024;
const ZEROS = Buffer.alloc(256 * MIB);

describe('an answer that is larger than memory', () => {
  let provider: MaliciousProvider;
  let victim: Victim;

  beforeAll(async () => {
    provider = await startMaliciousProvider();
  });

  afterEach(async () => {
    await victim.stop();
  });

  afterAll(async () => {
    await provider.close();
  });

  const ANSWERS: readonly (readonly [what: string, headers: readonly string[], bytes: Buffer])[] = [
    ['gzip', ['content-encoding: gzip'], gzipSync(ZEROS)],
    ['brotli', ['content-encoding: br'], brotliCompressSync(ZEROS, { params: QUICK })],
    ['zstd', ['content-encoding: zstd'], zstdCompressSync(ZEROS)],
    ['nothing', [], Buffer.concat([Buffer.from('data: {"choices":[{"delta":{"content":"'), ZEROS])],
  ];

  it.each(
    ANSWERS.flatMap(([what, ...rest]) =>
      (['node', 'web'] as const).map((kind) => [what, kind, ...rest] as const),
    ),
  )(
    'packed by %s, is not held for a client that reads nothing of it, at the %s door',
    async (_what, kind, headers, bytes) => {
      victim = await startVictim({ kind, provider: provider.baseURL }, 96);
      let written = (): void => {};
      const gone = new Promise<void>((resolve) => (written = resolve));
      provider.script = async (socket) => {
        await writeAll(socket, [answerHead(...headers), bytes]);
        socket.once('close', written);
        if (socket.destroyed) written();
      };
      const { mostBytes } = await victim.taken();
      const socket = victim.connect();
      const request = bodyOf(100).replace('{', '{"stream":true,');
      socket.write(headOf(victim.keys[0] ?? '', [`content-length: ${request.length}`]) + request);
      await once(socket, 'readable');
      // Each of them is answered in turn: what the router takes in without waiting for its client, it has taken by then.
      for (let i = 0; i < 50; i++) await askOther();
      expect((await victim.taken()).mostBytes - mostBytes).toBeLessThan(64 * MIB);
      socket.destroy();
      await gone;
    },
    60_000,
  );

  async function askOther(): Promise<void> {
    const socket = victim.connect();
    const answer = answerOn(socket);
    socket.write('GET /v1/models HTTP/1.1\r\nhost: victim\r\nconnection: close\r\n\r\n');
    await answer;
  }

  it('is not unpacked by zstd in a window of more than 8 MiB', async () => {
    victim = await startVictim({ kind: 'node', provider: provider.baseURL, router: { retries: false } }, 96);
    const packed = await packedInWindow(27);
    provider.script = async (socket) => {
      await writeAll(socket, [answerHead('content-encoding: zstd'), packed]);
      socket.end();
    };
    const socket = victim.connect();
    const answer = answerOn(socket);
    const request = bodyOf(100).replace('{', '{"stream":true,');
    const head = headOf(victim.keys[0] ?? '', [`content-length: ${request.length}`, 'connection: close']);
    socket.write(head + request);
    expect((await answer).text).toMatch(/"code":"upstream_cut"/);
  }, 60_000);
});

const QUICK = { [constants.BROTLI_PARAM_QUALITY]: 1 };

/** A stream of comments that says it needs so much memory to be unpacked. */
async function packedInWindow(log: number): Promise<Buffer> {
  const stream = createZstdCompress({ params: { [constants.ZSTD_c_windowLog]: log } });
  const packed: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => packed.push(chunk));
  const ended = once(stream, 'end');
  await writeAll(stream as never, repeated(Buffer.alloc(MIB, ':\n'), 40));
  stream.end();
  await ended;
  return Buffer.concat(packed);
}
