import { describe, expect, it } from 'vitest';

import { UsageMeter } from '../../src/metering/usage-meter.ts';
import { cpuTime } from './cpu-time.ts';

const BYTES = 1_500_000;
const COUNTS = '"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}';

/** Pieces up to that many bytes together. */
function fill(piece: (n: number) => string, between = ''): string {
  const pieces: string[] = [];
  for (let n = 0, length = 0; length < BYTES; n++) {
    const next = piece(n);
    pieces.push(next);
    length += next.length + between.length;
  }
  return pieces.join(between);
}

/** Metered as it comes, event by event as well as in pieces that a socket gives; read after each, as a delivery gate reads it. */
function timeOf(answer: string, choices: number): number {
  const bytes = Buffer.from(answer);
  return cpuTime(() => {
    const meter = new UsageMeter(undefined, choices);
    for (let at = 0; at < bytes.length; at += 1000) {
      meter.write(bytes.subarray(at, at + 1000));
      void meter.reportedCompletionTokens;
    }
    meter.end();
    void meter.usage;
  }, 2);
}

describe('usage reported for many choices', () => {
  const HARMLESS = fill(
    (n) => `data: {"choices":[{"index":0,"delta":{"content":"${n} and so on, and so on"}}]}\n\n`,
  );
  const HOSTILE: readonly (readonly [what: string, answer: string])[] = [
    ['in each of them', `{"choices":[${fill((n) => `{"index":${n},${COUNTS}}`, ',')}]}`],
    ['in chunks of their own', fill((n) => `data: {"choices":[{"index":${n},${COUNTS}}]}\n\n`)],
    ['beside them', fill((n) => `data: {"choices":[{"index":${n}}],${COUNTS}}\n\n`)],
    [
      'beside one after another',
      fill((n) => `data: {"choices":[{"index":${n % 128},"delta":{"content":"x"}}],${COUNTS}}\n\n`),
    ],
  ];

  it.each(HOSTILE)('%s takes no longer than text', (_what, answer) => {
    const harmless = timeOf(HARMLESS, 128);
    expect(timeOf(answer, 1)).toBeLessThan(30 * harmless);
    expect(timeOf(answer, 128)).toBeLessThan(30 * harmless);
  });

  it('counts for those that were asked for alone', () => {
    const meter = new UsageMeter(undefined, 2);
    const of = (index: number): string =>
      `{"index":${index},"usage":{"prompt_tokens":9,"completion_tokens":5}}`;
    meter.write(Buffer.from(`{"choices":[${[0, 1, 2, 3, -1].map(of).join()}]}`));
    meter.end();
    expect(meter.usage).toMatchObject({ promptTokens: 9, completionTokens: 10 });
  });
});
