import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { UsageMeter } from '../../src/metering/usage-meter.ts';
import { cpuTime } from './cpu-time.ts';
import { answerHead, type MaliciousProvider, startMaliciousProvider } from './malicious-provider.ts';
import { answerOn, bodyOf, headOf, startVictim, type Victim, writeAll } from './victim.ts';

const BYTES = 1_000_000;
const PIECE = 65_536;

const HARMLESS = 'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n';
const HOSTILE: readonly (readonly [what: string, events: string])[] = [
  ['broken events', 'data: {x\n\n'],
  ['documents that are glued together', `data: ${'{}'.repeat(100)}\n\n`],
  ['longer documents, glued together', `data: ${'{"choices":[],"id":"0123456789abcdef"}'.repeat(50)}\n\n`],
  ['tiny events', 'data:1\n\n'],
  ['blank lines', '\n'],
  ['comments', ':\n'],
  ['lines of data', `data: {\n${'data:\n'.repeat(10_000)}data: }\n\n`],
  ['usage', 'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'],
  ['errors', 'data: {"error":{"code":1}}\n\n'],
];

function streamOf(events: string): Buffer {
  return Buffer.from(events.repeat(Math.ceil(BYTES / events.length)));
}

/** The processor's time for metering as it comes from a socket. */
function timeOf(events: string): number {
  const bytes = streamOf(events);
  return cpuTime(() => {
    const meter = new UsageMeter();
    for (let at = 0; at < bytes.length; at += PIECE) meter.write(bytes.subarray(at, at + PIECE));
    meter.end();
  }, 4);
}

describe('a stream', () => {
  it.each(HOSTILE)('of %s takes little more time than one of text', (_what, events) => {
    timeOf(HARMLESS);
    expect(timeOf(events)).toBeLessThan(20 * timeOf(HARMLESS));
  });
});

describe('a stream that comes as fast as a socket gives it', () => {
  let provider: MaliciousProvider;
  let victim: Victim;

  beforeAll(async () => {
    provider = await startMaliciousProvider();
    victim = await startVictim({ kind: 'node', provider: provider.baseURL }, 256);
  });

  afterAll(async () => {
    await victim.stop();
    await provider.close();
  });

  it('is not read in one turn of the event loop', async () => {
    provider.script = async (socket) => {
      await writeAll(socket, [
        answerHead(),
        streamOf('data:1\n\n').subarray(0, BYTES),
        '\n\ndata: [DONE]\n\n',
      ]);
      socket.end();
    };
    let least = Infinity;
    for (let i = 0; i < 6; i++) {
      await victim.taken('watch');
      const socket = victim.connect();
      const answer = answerOn(socket);
      const request = bodyOf(100).replace('{', '{"stream":true,');
      const head = headOf(victim.keys[0] ?? '', [`content-length: ${request.length}`, 'connection: close']);
      socket.write(head + request);
      expect((await answer).status).toBe(200);
      const { longestTurnMs, cpuMs } = await victim.taken();
      least = Math.min(least, longestTurnMs / cpuMs);
    }
    expect(least).toBeLessThan(0.35);
  }, 30_000);
});
