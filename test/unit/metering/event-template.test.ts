import * as fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { EventTemplate, EventTemplates, TemplateMatcher } from '../../../src/metering/event-template.ts';
import { UsageEventFilter } from '../../../src/metering/usage-event-filter.ts';
import { UsageMeter } from '../../../src/metering/usage-meter.ts';
import { OTHER_EVENTS, PRESET_NAMES, presetStream, READ_IN_FULL } from '../../helpers/preset-streams.ts';
import { IS_FULL, runs } from '../../helpers/runs.ts';
import { Random } from '../../simulation/random.ts';
import { cut, mutated } from '../fuzz/fuzz.ts';

const TEXT = 'data: {"choices":[{"index":0,"delta":{"content":"Hi é😀"}}],"usage":null}\n\n';
/** Bytes between two cuts. */
const CUT_STEP = IS_FULL ? 1 : 5;

afterEach(() => {
  vi.restoreAllMocks();
});

describe('a stream that is read by templates', () => {
  it.each(PRESET_NAMES)('of %s is read as without them, wherever it is cut', (preset) => {
    const templates = new EventTemplates();
    const texts = ['Hello', ' "world"\n', '', ' é字😀', '\u0007', 'x'.repeat(100)];
    const bytes = Buffer.from(presetStream(preset, texts));
    expect(saidOf([bytes], templates)).toBe(saidOf([bytes]));
    for (let at = 0; at <= bytes.length; at += CUT_STEP) {
      const pieces = [bytes.subarray(0, at), bytes.subarray(at)];
      expect(saidOf(pieces, templates), `cut at byte ${at}`).toBe(saidOf(pieces));
    }
  });

  it('is read as without them, whatever is in it, and by whichever streams they were learned', () => {
    const templates = new EventTemplates();
    const preset = fc.constantFrom(...PRESET_NAMES);
    const texts = fc.array(fc.string({ unit: 'binary', maxLength: 12 }), { maxLength: 6 });
    const others = fc.array(fc.constantFrom(...OTHER_EVENTS), { maxLength: 4 });
    fc.assert(
      fc.property(preset, texts, others, fc.integer(), fc.boolean(), (name, parts, more, seed, damaged) => {
        const random = new Random(Math.abs(seed));
        const events = presetStream(name, parts).split(/(?<=\n\n)/);
        for (const other of more) events.splice(random.below(events.length + 1), 0, other);
        const whole = Buffer.from(events.join(''));
        const pieces = cut(damaged ? mutated(whole, random) : whole, random);
        expect(saidOf(pieces, templates)).toBe(saidOf(pieces));
      }),
      { numRuns: runs(20_000) },
    );
  });

  it('is read as without them where each event of another kind comes twice', () => {
    for (const other of OTHER_EVENTS) {
      const templates = new EventTemplates();
      const bytes = Buffer.from(TEXT + other + other + TEXT + other);
      expect(saidOf([bytes], templates), other).toBe(saidOf([bytes]));
      expect(saidOf([bytes], templates), other).toBe(saidOf([bytes]));
    }
  });

  it('has text only in the chunks that deliver it, where each choice counts its own tokens', () => {
    const usage = (index: number, completion_tokens: number): string => {
      const counts = { prompt_tokens: 9, completion_tokens };
      return `data: ${JSON.stringify({ choices: [{ index, delta: {} }], usage: counts })}\n\n`;
    };
    const bytes = Buffer.from(TEXT + TEXT + usage(0, 5) + TEXT + usage(1, 3) + usage(0, 6) + usage(1, 4));
    expect(saidOf([bytes], new EventTemplates())).toBe(saidOf([bytes]));
  });

  it('is read as without them by any change of one byte', () => {
    // Between two numbers stands less than a word.
    const list = TEXT.replace('"usage"', '"list":[1,20],"usage"');
    const bytes = Buffer.from(OTHER_EVENTS[9] + TEXT + list);
    const templates = new EventTemplates();
    saidOf([bytes], templates);
    const values = [
      0x00, 0x0a, 0x0d, 0x20, 0x22, 0x2c, 0x2d, 0x30, 0x31, 0x5b, 0x5c, 0x65, 0x7b, 0x7d, 0x80, 0xc3, 0xff,
    ];
    for (let at = 0; at < bytes.length; at++) {
      for (const value of values) {
        const changed = Buffer.from(bytes);
        changed[at] = value;
        expect(saidOf([changed], templates), `byte ${at} is ${value}`).toBe(saidOf([changed]));
      }
    }
  });
});

describe('an event of text', () => {
  it.each(PRESET_NAMES.filter((name) => !READ_IN_FULL.has(name)))(
    'of %s is known by a template',
    (preset) => {
      const templates = new EventTemplates();
      const read = (text: string): number =>
        knownEvents(presetStream(preset, Array(20).fill(text)), templates);
      read('Hello');
      expect(read(' "é😀"\n')).toBeGreaterThanOrEqual(20);
    },
  );

  it.each([
    ['with usage', { choices: [], usage: {} }],
    ['with a finish reason', { choices: [{ delta: { content: 'x' }, finish_reason: 'stop' }] }],
    ['with an error', { choices: [{ delta: { content: 'x' } }], error: { code: 1 } }],
    ['with the name of a function', { choices: [{ delta: { function: { name: '$web_search' } } }] }],
    [
      'with calls of a gateway',
      { choices: [{ delta: { provider_metadata: { gatewayToolCalls: { a: 1 } } } }] },
    ],
    ['with timings', { choices: [{ delta: { content: 'x' } }], timings: { cache_n: 1 } }],
    ['of more than 2,048 bytes', { choices: [{ delta: { content: 'x'.repeat(2048) } }] }],
    ['of more than 48 values', { choices: [{ delta: { content: 'x' } }], list: Array(48).fill(1) }],
  ])('is not, %s', (_what, fields) => {
    const stream = `data: ${JSON.stringify(fields)}\n\n`.repeat(3);
    expect(knownEvents(stream, new EventTemplates())).toBe(0);
  });

  it('is counted with the service tier that its stream names', () => {
    const templates = new EventTemplates();
    const tier = (name: string): string => TEXT.replace('"usage"', `"service_tier":"${name}","usage"`);
    const meter = new UsageMeter(undefined, undefined, undefined, templates);
    meter.write(Buffer.from(tier('flex').repeat(3)));
    expect(meter.serviceTier).toBe('flex');
    meter.write(Buffer.from(tier('priority').repeat(3) + TEXT));
    expect(meter.serviceTier).toBe('priority');
    expect(meter.delivered).toEqual({ ascii: 21, nonAscii: 14 });
  });
});

describe('templates of a target', () => {
  it('are six at most: those that match are kept, others make room', () => {
    const templates = new EventTemplates();
    const shape = (n: number): string => TEXT.replace('"usage"', `"x${n}":1,"usage"`);
    for (let n = 0; n < 15; n++) knownEvents(TEXT + shape(n), templates);
    expect(templates.all).toHaveLength(6);
    expect(knownBefore(TEXT, templates)).toBe(true);
    expect(knownBefore(shape(14), templates)).toBe(true);
    expect(knownBefore(shape(0), templates)).toBe(false);
  });

  it('are learned from 16 events, and from one more of each 256 that none of them matches', () => {
    const templates = new EventTemplates();
    const useless = (n: number): string => `data: {"x${n}":{},"usage":{}}\n\n`;
    for (let n = 0; n < 16; n++) knownEvents(useless(n), templates);
    expect(knownEvents(TEXT, templates)).toBe(0);
    for (let n = 17; n < 255; n++) knownEvents(useless(n % 10), templates);
    expect(knownEvents(TEXT.repeat(2), templates)).toBe(2);
  });

  it('are not tried at each event of a stream that none of them matches', () => {
    const templates = new EventTemplates();
    knownEvents(TEXT, templates);
    const match = vi.spyOn(EventTemplate.prototype, 'match');
    knownEvents(TEXT.replace('null}\n', 'nul}\n').repeat(10_000), templates);
    expect(match.mock.calls.length).toBeLessThan(10_000 / 10);
  });

  it('are tried again by a stream whose events are known again', () => {
    const templates = new EventTemplates();
    const other = TEXT.replace('null}\n', 'nul}\n').repeat(300);
    expect(knownEvents(TEXT + other + TEXT.repeat(300), templates)).toBeGreaterThan(40);
  });
});

/** All that is said of a stream after each of its pieces, and what goes on of it. */
function saidOf(pieces: readonly Buffer[], templates?: EventTemplates): string {
  const meter = new UsageMeter(undefined, 4, 'cost', templates);
  const filter = new UsageEventFilter(new UsageMeter(undefined, 4, undefined, templates));
  const said: unknown[] = [];
  meter.listener = { onEvent: (event) => said.push({ ...event }) };
  for (const piece of pieces) {
    meter.write(piece);
    const through = Buffer.concat([filter.write(piece)].flat()).toString('latin1');
    said.push({ through, ...stateOf(meter) });
  }
  meter.end();
  said.push({ through: Buffer.concat([...filter.end()]).toString('latin1'), ...stateOf(meter) });
  return JSON.stringify(said, undefined, 1);
}

function stateOf(meter: UsageMeter): object {
  return {
    delivered: meter.delivered,
    usage: meter.usage,
    serviceTier: meter.serviceTier,
    reportedCost: String(meter.reportedCost),
    reportedCompletionTokens: meter.reportedCompletionTokens,
    format: meter.format,
    betweenEvents: meter.betweenEvents,
    eventFrom: meter.eventFrom,
    unfinishedJson: meter.unfinishedJson,
    done: meter.done,
    failed: meter.failed,
    gaveReason: meter.gaveReason,
    finishReason: meter.finishReason,
  };
}

/** How many events of a stream templates know, by those learned before and from the stream itself. */
function knownEvents(stream: string, templates: EventTemplates): number {
  const matcher = new TemplateMatcher(templates);
  const bytes = Buffer.from(stream);
  let known = 0;
  for (let at = 0; at < bytes.length;) {
    if (matcher.find(bytes, at)) {
      known += 1;
      at = matcher.end;
    } else {
      const next = bytes.indexOf('\n\n', at);
      at = next === -1 ? bytes.length : next + 2;
    }
  }
  return known;
}

/** Whether one of the templates matches this event already. */
function knownBefore(event: string, templates: EventTemplates): boolean {
  return templates.all.some((template) => template.match(Buffer.from(event), 0) !== -1);
}
