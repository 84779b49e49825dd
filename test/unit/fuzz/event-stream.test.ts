import { describe, expect, it } from 'vitest';

import { UsageEventFilter } from '../../../src/metering/usage-event-filter.ts';
import { UsageMeter } from '../../../src/metering/usage-meter.ts';
import type { Random } from '../../simulation/random.ts';
import { runs } from '../../helpers/runs.ts';
import { cut, fuzz, FUZZ_TIMEOUT, isReplay, mutated, someText } from './fuzz.ts';

/** What may be held back of an event that has begun. */
const MAX_HELD_BACK = 64 * 1024;

let splits = 0;

describe('any stream, cut anywhere', FUZZ_TIMEOUT, () => {
  it('is read as when it comes in one piece: same usage, same text, same state', () => {
    fuzz(26_000, (random) => {
      const answer = random.chance(0.1) ? jsonOf(random) : streamOf(random).bytes;
      const bytes = random.chance(0.5) ? answer : mutated(answer, random);
      const whole = toldOf([bytes]);
      const pieces = cut(bytes, random);
      splits += pieces.length;
      same(toldOf(pieces), whole, bytes);
    });
  });

  it('goes on to the last byte, but for the one usage event and usage: null', () => {
    fuzz(26_000, (random) => {
      const { bytes, kept } = streamOf(random);
      const pieces = cut(bytes, random);
      splits += pieces.length;
      same(filtered(pieces).toString('latin1'), kept.toString('latin1'), bytes);
    });
  });

  it('loses nothing else when it is damaged, and the same wherever it is cut', () => {
    fuzz(26_000, (random) => {
      const bytes = mutated(streamOf(random).bytes, random);
      const through = filtered([bytes]);
      const pieces = cut(bytes, random);
      splits += pieces.length;
      same(filtered(pieces).toString('latin1'), through.toString('latin1'), bytes);
      const mayHaveNulls = bytes.includes('null');
      if (through.length < bytes.length && !mayHaveNulls) expectOneUsageEventLess(bytes, through);
    });
  });

  it('is survived where it is no stream at all', () => {
    fuzz(26_000, (random) => {
      const bytes = Buffer.from(Array.from({ length: random.below(120) }, () => random.below(256)));
      const pieces = cut(bytes, random);
      splits += pieces.length;
      same(toldOf(pieces), toldOf([bytes]), bytes);
      same(filtered(pieces).toString('latin1'), filtered([bytes]).toString('latin1'), bytes);
    });
  });

  it('is held back by 64 KiB of an event at most', () => {
    fuzz(400, (random) => {
      const content = 'x'.repeat(random.between(MAX_HELD_BACK - 2000, 3 * MAX_HELD_BACK));
      const bytes = Buffer.concat([
        streamOf(random).bytes,
        Buffer.from(`data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`),
        streamOf(random).bytes,
      ]);
      const pieces = cut(bytes, random);
      splits += pieces.length;
      filtered(pieces);
    });
  });

  it('was cut a million times, or a tenth of that', () => {
    if (!isReplay) expect(splits).toBeGreaterThan(runs(1_000_000));
  });
});

/** What a meter says of an answer, once it is over. */
function toldOf(pieces: readonly Buffer[]): string {
  const meter = new UsageMeter();
  for (const piece of pieces) meter.write(piece);
  meter.end();
  const { usage, delivered, reportedCompletionTokens, format, betweenEvents, done, failed, finished } = meter;
  return JSON.stringify({
    usage,
    delivered,
    reportedCompletionTokens,
    format,
    betweenEvents,
    done,
    failed,
    finished,
  });
}

/** What a filter lets through; it never holds back more than it may. */
function filtered(pieces: readonly Buffer[]): Buffer {
  const filter = new UsageEventFilter(new UsageMeter());
  const through: Buffer[] = [];
  let bytesIn = 0;
  let bytesOut = 0;
  for (const piece of pieces) {
    const passed = [filter.write(piece)].flat();
    bytesIn += piece.length;
    for (const each of passed) bytesOut += each.length;
    through.push(...passed);
    // The dropped event, of less than a kilobyte, counts as held back here.
    if (bytesIn - bytesOut > MAX_HELD_BACK + 1024)
      throw new Error(`${bytesIn - bytesOut} bytes are held back`);
  }
  through.push(...filter.end());
  return Buffer.concat(through);
}

/** A stream as a provider might write it, and what a client is to see of it: all but its first usage event, and no `usage: null`. */
function streamOf(random: Random): { readonly bytes: Buffer; readonly kept: Buffer } {
  const lineEnd = random.pick(['\n', '\n', '\r\n', '\r']);
  const lines = (text: string): string => text.replaceAll('\n', lineEnd);
  let bytes = '';
  let kept = '';
  let dropped = false;
  for (let n = random.below(9); n > 0; n--) {
    const event = random.pick(EVENTS)(random);
    bytes += lines(event.comment + event.text);
    if (event.isUsage && !dropped) {
      dropped = true;
      kept += lines(event.comment);
    } else {
      kept += lines(event.comment + (event.kept ?? event.text));
    }
  }
  return { bytes: Buffer.from(bytes), kept: Buffer.from(kept) };
}

/** An answer that isn't streamed. */
function jsonOf(random: Random): Buffer {
  const choices = [{ message: { content: someText(random) }, finish_reason: 'stop' }];
  const before = random.pick(['', '\ufeff', '\n ', ' \r\n']);
  return Buffer.from(
    before + JSON.stringify({ choices, usage: usageOf(random) }, undefined, random.below(3)),
  );
}

interface Event {
  readonly comment: string;
  readonly text: string;
  readonly isUsage: boolean;
  /** What is left of its text. @default all of it */
  readonly kept?: string;
}

const EVENTS: readonly [(random: Random) => Event, ...((random: Random) => Event)[]] = [
  (random) =>
    eventOf(random, { choices: [{ index: random.below(3), delta: { content: someText(random) } }] }),
  (random) =>
    eventOf(random, {
      choices: [{ index: 0, delta: { tool_calls: [{ function: { arguments: someText(random) } }] } }],
    }),
  (random) =>
    eventOf(random, { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: usageOf(random) }),
  (random) =>
    eventWithNull(random, { choices: [{ index: 0, delta: {}, usage: usageOf(random) }], usage: null }),
  (random) => eventWithNull(random, { id: someText(random), usage: null, choices: [] }),
  (random) => eventWithNull(random, { usage: null, choices: [{ delta: { content: someText(random) } }] }),
  (random) => eventOf(random, { choices: [{ delta: {}, usage: null }], x: { usage: null } }),
  (random) => eventOf(random, { choices: [], usage: usageOf(random) }, true),
  (random) => eventOf(random, { usage: usageOf(random), id: someText(random), choices: [] }, true),
  (random) => eventOf(random, { x_groq: { usage: usageOf(random) }, choices: [{}] }),
  (random) => eventOf(random, { error: { message: someText(random) } }),
  () => raw('data: [DONE]\n\n'),
  () => raw(': ping\n\n'),
  () => raw(': ping\n'),
  () => raw('\n'),
  () => raw('id: 7\nretry: 10\n\n'),
  () => raw('event: error\ndata: {"message":"no"}\n\n'),
  () => raw('data: {"choices":[],"usage":{"prompt_tokens":1\n\n'),
  () => raw('data: {"choices":\ndata: [{"delta":{"content":"two lines"}}]}\n\n'),
];

function eventOf(random: Random, data: object, isUsage = false): Event {
  let json = JSON.stringify(data);
  if (random.chance(0.2)) json = json.replace('usage', String.raw`us\u0061ge`);
  const [before, blank, after] = [
    random.pick(['', '', 'event: x\n']),
    random.pick(['', ' ']),
    random.pick(['', '', 'id: 1\n']),
  ];
  const comment = random.pick(['', '', ': x\n']);
  return { comment, text: `${before}data:${blank}${json}\n${after}\n`, isUsage };
}

function eventWithNull(random: Random, data: object): Event {
  const event = eventOf(random, data);
  const nullUsage = String.raw`"us(?:a|\\u0061)ge":null`;
  const kept = event.text.replace(new RegExp(`,${nullUsage}|${nullUsage},`), '');
  return { ...event, kept };
}

function raw(text: string): Event {
  return { comment: '', text, isUsage: false };
}

function usageOf(random: Random): object {
  const count = (): unknown => random.pick<unknown>([0, 9, 12, 1e15, -1, 1.5, '7', null, { x: 1 }, 1e300]);
  return {
    prompt_tokens: count(),
    completion_tokens: count(),
    ...(random.chance(0.5) && { total_tokens: count() }),
    ...(random.chance(0.3) && { prompt_tokens_details: { cached_tokens: count() } }),
    ...(random.chance(0.3) && { completion_tokens_details: { reasoning_tokens: count() } }),
  };
}

/** What is missing is one stretch, which is an event with usage and nothing else to say. */
function expectOneUsageEventLess(bytes: Buffer, through: Buffer): void {
  const length = bytes.length - through.length;
  const common = bytes.findIndex((byte, at) => byte !== through[at]);
  // The same stretch may be said to begin earlier, where what is before it is like its end.
  for (let at = common; at >= 0 && bytes.subarray(at + length).equals(through.subarray(at)); at--) {
    if (isUsageEvent(bytes.toString('utf8', at, at + length))) return;
  }
  throw new Error(`lost ${JSON.stringify(bytes.toString('utf8', common, common + length))}`);
}

function isUsageEvent(text: string): boolean {
  const lines = text.split(/\r\n|\n|\r/);
  const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5));
  try {
    const { choices, usage }: { choices?: unknown; usage?: unknown } = JSON.parse(data.join('\n'));
    return Array.isArray(choices) && choices.length === 0 && typeof usage === 'object';
  } catch {
    return false;
  }
}

function same(told: string, expected: string, bytes: Buffer): void {
  if (told === expected) return;
  throw new Error(`${told}\ninstead of\n${expected}\nof\n${JSON.stringify(bytes.toString('latin1'))}`);
}
