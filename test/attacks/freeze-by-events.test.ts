import { once } from 'node:events';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { EventTemplates } from '../../src/metering/event-template.ts';
import { UsageMeter } from '../../src/metering/usage-meter.ts';
import { cpuTime } from './cpu-time.ts';
import { answerHead, type MaliciousProvider, startMaliciousProvider } from './malicious-provider.ts';
import { bodyOf, headOf, startVictim, type Victim, writeAll } from './victim.ts';

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
  ['events without data', 'a\n\n'],
  ['lines that say of errors', 'error:\n'],
  ['lines of data', `data: {\n${'data:\n'.repeat(10_000)}data: }\n\n`],
  ['usage', 'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'],
  ['errors', 'data: {"error":{"code":1}}\n\n'],
  [
    'events that differ from a template in their last byte',
    'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\r',
  ],
];

function streamOf(events: string): Buffer {
  return Buffer.from(events.repeat(Math.ceil(BYTES / events.length)));
}

/** The processor's time for metering as it comes from a socket. */
function timeOf(events: string, templates?: EventTemplates): number {
  const bytes = streamOf(events);
  return cpuTime(() => {
    const meter = new UsageMeter(undefined, undefined, undefined, templates);
    for (let at = 0; at < bytes.length; at += PIECE) meter.write(bytes.subarray(at, at + PIECE));
    meter.end();
  }, 4);
}

describe('a stream', () => {
  it.each(HOSTILE)('of %s takes little more time than one of text', (_what, events) => {
    const templates = new EventTemplates();
    new UsageMeter(undefined, undefined, undefined, templates).write(Buffer.from(HARMLESS));
    timeOf(HARMLESS);
    expect(timeOf(events, templates)).toBeLessThan(5 * timeOf(HARMLESS));
  });
});

describe('a stream that is read on after its client left', () => {
  let provider: MaliciousProvider;
  let victim: Victim;

  beforeAll(async () => {
    provider = await startMaliciousProvider();
    const draining = { baseURL: provider.baseURL, onDisconnect: 'drain' } as const;
    const router = { providers: { one: draining, two: draining } };
    victim = await startVictim({ kind: 'node', provider: provider.baseURL, router }, 256);
  });

  afterAll(async () => {
    await victim.stop();
    await provider.close();
  });

  it('leaves turns of the event loop to others, however fast it comes', async () => {
    const events = Buffer.from('data:1\n\n'.repeat(500_000));
    const shares: number[] = [];
    for (let i = 0; i < 9; i++) {
      const socket = victim.connect();
      const read = new Promise<void>((resolve) => {
        provider.script = async (upstream) => {
          upstream.once('close', resolve).resume();
          await writeAll(upstream, [answerHead(), HARMLESS]);
          await once(socket, 'close');
          await writeAll(upstream, [events, 'data: [DONE]\n\n']);
          upstream.end();
        };
      });
      await victim.taken('watch');
      const request = bodyOf(100).replace('{', '{"stream":true,');
      socket.write(headOf(victim.keys[0] ?? '', [`content-length: ${request.length}`]) + request);
      await once(socket, 'data');
      socket.destroy();
      await read;
      const { longestTurnMs, cpuMs } = await victim.taken();
      shares.push(longestTurnMs / cpuMs);
    }
    // The first runs compile what the others run.
    expect(Math.max(...shares.slice(3))).toBeLessThan(0.25);
  }, 30_000);
});
