import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { UsageEventFilter } from '../../../src/metering/usage-event-filter.ts';
import { UsageMeter } from '../../../src/metering/usage-meter.ts';
import { cpuTime } from '../../attacks/cpu-time.ts';
import { runs } from '../../helpers/runs.ts';

const TEXT = 'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n';
/** As providers write it where they were asked for usage. */
const TEXT_WITH_NULL = TEXT.replace(']}', '],"usage":null}');
const END = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n';
const USAGE = 'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":12}}\n\n';
const DONE = 'data: [DONE]\n\n';
const LINE_ENDS = [
  ['LF', '\n'],
  ['CRLF', '\r\n'],
  ['CR', '\r'],
] as const;

describe('the usage event', () => {
  it.each(LINE_ENDS)('is all that is dropped, wherever the stream is cut: %s', (_name, lineEnd) => {
    const before = withLineEnd(`: hello\n\n${TEXT}event: x\nid: 1\n${TEXT}`, lineEnd);
    const after = withLineEnd(`${DONE}: bye\n\n`, lineEnd);
    const bytes = Buffer.from(before + withLineEnd(USAGE, lineEnd) + after);
    for (let cut = 0; cut <= bytes.length; cut++) {
      const through = filtered([bytes.subarray(0, cut), bytes.subarray(cut)]);
      expect(through, `cut at byte ${cut}`).toBe(before + after);
    }
    expect(filtered(byteByByte(bytes))).toBe(before + after);
  });

  it.each([
    ['with an event and an id', `event: message\nid: 7\n${USAGE}`],
    ['with its keys in another order', 'data: {"usage":{"total_tokens":21},"id":"1","choices":[]}\n\n'],
    ['without a blank after data:', USAGE.replace(': ', ':')],
    ['over several lines of data', 'data: {"choices":\ndata: [],\ndata: "usage":{}}\n\n'],
    ['with moderation and error of null', USAGE.replace('[]', '[],"moderation":null,"error":null')],
    ['with keys written as escapes', USAGE.replace('usage', String.raw`us\u0061ge`)],
  ])('is dropped %s', (_form, event) => {
    expect(filtered([Buffer.from(TEXT + event + DONE)])).toBe(TEXT + DONE);
    expect(filtered(byteByByte(Buffer.from(TEXT + event + DONE)))).toBe(TEXT + DONE);
  });

  it.each(LINE_ENDS)(
    'is dropped where one line end is all that stands between events: %s',
    (_name, lineEnd) => {
      const lines = [TEXT, TEXT, USAGE, DONE].map((event) => withLineEnd(event.slice(0, -1), lineEnd));
      const bytes = Buffer.from(lines.join('') + lineEnd);
      const kept = lines.filter((_line, i) => i !== 2).join('') + lineEnd;
      for (let cut = 0; cut <= bytes.length; cut++) {
        expect(filtered([bytes.subarray(0, cut), bytes.subarray(cut)]), `cut at byte ${cut}`).toBe(kept);
      }
      expect(filtered(byteByByte(bytes))).toBe(kept);
    },
  );

  it('leaves the comments before it', () => {
    expect(filtered(byteByByte(Buffer.from(`: ping\n${USAGE}${DONE}`)))).toBe(`: ping\n${DONE}`);
  });

  it('leaves a second one', () => {
    expect(filtered([Buffer.from(USAGE + USAGE + DONE)])).toBe(USAGE + DONE);
  });

  it('is metered all the same', () => {
    const meter = new UsageMeter();
    new UsageEventFilter(meter).write(Buffer.from(USAGE));
    expect(meter.usage).toMatchObject({ promptTokens: 9, completionTokens: 12 });
  });
});

describe('the usage event of LiteLLM', () => {
  const LITELLM = USAGE.replace('[]', '[{"index":0,"delta":{}}]');

  it.each([
    ['with an empty delta', LITELLM],
    [
      'with null members',
      USAGE.replace('[]', '[{"delta":{"content":null},"finish_reason":null,"logprobs":null}]'),
    ],
  ])('is dropped after the reason of the end: %s', (_form, event) => {
    expect(filtered([Buffer.from(TEXT + END + event + DONE)])).toBe(TEXT + END + DONE);
    expect(filtered(byteByByte(Buffer.from(TEXT + END + event + DONE)))).toBe(TEXT + END + DONE);
  });

  it.each([
    ['before it', LITELLM + TEXT + END + DONE],
    ['with a logprob', END + LITELLM.replace('{}}', '{},"logprobs":{"content":[]}}') + DONE],
    ['with a member that is not known', END + LITELLM.replace('{}}', '{},"x":1}') + DONE],
    ['with a word', END + LITELLM.replace('{}', '{"role":"assistant"}') + DONE],
    ['with a choice that is no object', END + LITELLM.replace('{"index":0,"delta":{}}', '0') + DONE],
  ])('stays %s', (_form, stream) => {
    expect(filtered([Buffer.from(stream)])).toBe(stream);
  });
});

describe('usage: null', () => {
  it.each([
    [
      'at the end',
      '{"choices":[{"delta":{"content":"Hi"}}],"usage":null}',
      '{"choices":[{"delta":{"content":"Hi"}}]}',
    ],
    ['in the middle', '{"choices":[],"usage":null,"id":"1"}', '{"choices":[],"id":"1"}'],
    ['at the beginning', '{"usage":null,"choices":[]}', '{"choices":[]}'],
    ['alone', '{"usage":null}', '{}'],
    ['between blanks', '{ "choices": [] , "usage" :\tnull }', '{ "choices": []  }'],
    ['first, between blanks', '{ "usage" : null , "choices": [] }', '{  "choices": [] }'],
    ['with its key written as an escape', '{"choices":[],"us\\u0061ge":null}', '{"choices":[]}'],
    [
      'beside others that are deeper',
      '{"x":{"usage":null},"usage":null,"y":"\\"usage\\":null"}',
      '{"x":{"usage":null},"y":"\\"usage\\":null"}',
    ],
    [
      'after letters of several bytes',
      '{"choices":[{"delta":{"content":"é😀"}}],"usage":null}',
      '{"choices":[{"delta":{"content":"é😀"}}]}',
    ],
  ])('is taken out of each event, wherever the stream is cut: %s', (_place, data, left) => {
    for (const [, lineEnd] of LINE_ENDS) {
      const stream = (json: string): string =>
        withLineEnd(`: hello\n\nevent: x\ndata: ${json}\n\ndata:${json}\n\n${USAGE}${DONE}`, lineEnd);
      const expected = stream(left).replace(withLineEnd(USAGE, lineEnd), '');
      const bytes = Buffer.from(stream(data));
      for (let cut = 0; cut <= bytes.length; cut++) {
        expect(filtered([bytes.subarray(0, cut), bytes.subarray(cut)]), `cut at byte ${cut}`).toBe(expected);
      }
      expect(filtered(byteByByte(bytes))).toBe(expected);
    }
  });

  it('is taken out where one line end is all that stands between events', () => {
    const lines = [TEXT_WITH_NULL, TEXT_WITH_NULL, END, DONE].map((event) => event.slice(0, -1)).join('');
    const expected = [TEXT, TEXT, END, DONE].map((event) => event.slice(0, -1)).join('');
    expect(filtered([Buffer.from(lines)])).toBe(expected);
    expect(filtered(byteByByte(Buffer.from(lines)))).toBe(expected);
  });

  it('leaves the bytes of the provider alone, which may be read again', () => {
    const chunk = Buffer.from(TEXT_WITH_NULL);
    expect(filtered([chunk])).toBe(TEXT);
    expect(String(chunk)).toBe(TEXT_WITH_NULL);
  });

  it('is taken out of an event of over 64 KiB, where its chunk is still here', () => {
    const event = `data: {"choices":[],"x":"${'x'.repeat(100_000)}","usage":null}\n\n`;
    const bytes = Buffer.from(event);
    const expected = event.replace(',"usage":null', '');
    expect(filtered([bytes.subarray(0, 70_000), bytes.subarray(70_000)])).toBe(expected);
    // Its comma has gone on with the piece before it.
    const comma = event.indexOf(',"usage"') + 1;
    expect(filtered([bytes.subarray(0, comma), bytes.subarray(comma)])).toBe(event);
  });

  it('costs no time that grows with the square of an event in pieces of a byte', () => {
    const read = (blanks: number): void => {
      const filter = newFilter();
      const event = Buffer.from(`data: {"choices":[],${' '.repeat(blanks)}"usage":null}\n\n`);
      const left = Buffer.concat(byteByByte(event).flatMap((chunk) => write(filter, chunk)));
      expect(String(left)).toBe(`data: {"choices":[]}\n\n`);
    };
    const short = cpuTime(() => {
      read(6_000);
    }, 5);
    // Ten times the time, or by the square a hundred times.
    expect(cpuTime(() => read(60_000)) / short).toBeLessThan(40);
  });

  it('stays where the client asked for usage', () => {
    const filter = new UsageEventFilter(new UsageMeter(), false);
    const chunk = Buffer.from(TEXT_WITH_NULL + USAGE + DONE);
    expect(sameBuffers(write(filter, chunk), [chunk])).toBe(true);
  });
});

describe('the filter leaves', () => {
  it.each([
    ['usage on a chunk with choices', '{"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":9}}'],
    ['usage on a chunk with text', '{"choices":[{"delta":{"content":""}}],"usage":{"prompt_tokens":9}}'],
    [
      'usage on the last chunk',
      '{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9}}',
    ],
    ['usage: null of a choice', '{"choices":[{"usage":null,"delta":{}}]}'],
    ['usage: null in deeper places', '{"x":{"usage":null},"choices":[],"x_groq":{"usage":null}}'],
    ['usage: null in a string', JSON.stringify({ choices: [], text: '{"a":1,"usage":null}' })],
    ['usage: null over several lines of data', '{"choices":[],\ndata: "usage":null}'],
    ['usage that is no object', '{"choices":[],"usage":[1]}'],
    ['a chunk without usage', '{"choices":[],"prompt_filter_results":[]}'],
    ['a chunk without choices', '{"usage":{"prompt_tokens":9}}'],
    ['choices that are no array', '{"choices":null,"usage":{"prompt_tokens":9}}'],
    ['moderation', '{"choices":[],"usage":{"prompt_tokens":9},"moderation":{"input":{}}}'],
    ['an error', '{"choices":[],"usage":{"prompt_tokens":9},"error":{"message":"x"}}'],
    ['choices that are no objects', '{"choices":[null],"usage":{"prompt_tokens":9}}'],
    ['usage in deeper places', '{"x":{"choices":[],"usage":{}},"choices":[]}'],
    ['usage in a string', JSON.stringify({ choices: [], text: USAGE })],
    ['JSON that is cut', '{"choices":[],"usage":{"prompt_tokens":9}'],
    ['JSON that is broken', '{"choices":[],"usage":{}}{}'],
    ['no JSON', 'usage'],
    [
      'usage whose blank line ends the text before it, too',
      '{"choices":[{"delta":{"content":"Hi"}}]}\ndata: {"choices":[],"usage":{"prompt_tokens":9}}',
    ],
    ['[DONE], glued to it', '[DONE]\ndata: {"choices":[],"usage":{"prompt_tokens":9}}'],
  ])('%s', (_case, data) => {
    const stream = `data: ${data}\n\n${DONE}`;
    expect(filtered([Buffer.from(stream)])).toBe(stream);
    expect(filtered(byteByByte(Buffer.from(stream)))).toBe(stream);
  });

  it('a JSON answer, and holds nothing of it back', () => {
    const filter = newFilter();
    const chunks = ['\ufeff', '\n ', '{"choices":[],', '"usage":{}}', '\n'].map((text) => Buffer.from(text));
    for (const chunk of chunks) expect(sameBuffers(write(filter, chunk), [chunk])).toBe(true);
    expect(filter.end()).toEqual([]);
  });

  it('everything but the one event and usage: null, however the bytes come', () => {
    const same = (event: string): [sent: string, kept: string] => [event, event];
    const event = fc.constantFrom(
      same(TEXT),
      same(END),
      same(': ping\n\n'),
      same(': ping\n'),
      same('id: 1\n\n'),
      same('\n'),
      same('data: {"broken\n\n'),
      same(`data: ${JSON.stringify({ choices: [{ delta: { content: `{"choices":[]}é😀${USAGE}` } }] })}\n\n`),
      [TEXT_WITH_NULL, TEXT],
      ['event: x\ndata: {"usage":null,"choices":[]}\n\n', 'event: x\ndata: {"choices":[]}\n\n'],
    );
    const events = fc.array(event, { maxLength: 6 });
    const lineEnd = fc.constantFrom('\n', '\r\n', '\r');
    const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(events, events, lineEnd, sizes, (before, after, end, lengths) => {
        const [sent, kept] = [0, 1].map((side) => {
          const text = (list: typeof before): string => list.map((pair) => pair[side]).join('');
          return withLineEnd(text(before) + (side === 0 ? USAGE : '') + text(after) + DONE, end);
        });
        expect(filtered(inPieces(Buffer.from(sent!), lengths))).toBe(kept);
      }),
      { numRuns: runs(500) },
    );
  });
});

describe('what goes on', () => {
  it('goes on whole after bytes that the meter got without the filter: of a client that left before them', () => {
    const meter = new UsageMeter();
    const filter = new UsageEventFilter(meter);
    meter.write(Buffer.from(TEXT_WITH_NULL + END + USAGE));
    const done = Buffer.from(DONE);
    expect(filter.write(done)).toBe(done);
    expect(meter.usage?.completionTokens).toBe(12);
  });

  it('goes on in the very buffer it came in', () => {
    const filter = newFilter();
    for (const text of [TEXT, TEXT + TEXT, ': ping\n\n', ': half a com', 'ment\n', DONE]) {
      const chunk = Buffer.from(text);
      expect(sameBuffers(write(filter, chunk), [chunk]), text).toBe(true);
    }
  });

  it('goes on at once where a chunk ends with its event, after each line end', () => {
    for (const [, lineEnd] of LINE_ENDS) {
      const filter = newFilter();
      expect(String(write(filter, Buffer.from(withLineEnd(TEXT, lineEnd))))).toBe(withLineEnd(TEXT, lineEnd));
    }
    const filter = newFilter();
    expect(Buffer.concat(write(filter, Buffer.from('data: 1\r\n\r'))).toString()).toBe('data: 1\r\n\r');
    expect(Buffer.concat(write(filter, Buffer.from('\n'))).toString()).toBe('\n');
  });

  it('waits for the end of an event that has begun', () => {
    const filter = newFilter();
    expect(String(write(filter, Buffer.from(`${TEXT}data: {"cho`)))).toBe(TEXT);
    expect(write(filter, Buffer.from('ices":[{}]}\n'))).toEqual([]);
    expect(Buffer.concat(write(filter, Buffer.from('\n'))).toString()).toBe('data: {"choices":[{}]}\n\n');
  });

  it('is reported at the end, when no end came', () => {
    const filter = newFilter();
    write(filter, Buffer.from('data: {"cho'));
    expect(Buffer.concat(filter.end()).toString()).toBe('data: {"cho');
    expect(filter.end()).toEqual([]);
  });

  it('waits no longer after 64 KiB of one event', () => {
    const filter = newFilter();
    const begin = Buffer.from(`data: {"choices":[],"x":"${'x'.repeat(65_000)}`);
    expect(write(filter, begin)).toEqual([]);
    const more = Buffer.from('x'.repeat(1000));
    expect(sameBuffers(write(filter, more), [begin, more])).toBe(true);
    const end = Buffer.from('","usage":{"prompt_tokens":1}}\n\n');
    expect(sameBuffers(write(filter, end), [end])).toBe(true);
  });

  it('is a 64 MiB line in the buffers it came in, with nothing piling up', () => {
    const filter = newFilter();
    const begin = Buffer.from('data: {"choices":[{"delta":{"content":"');
    const part = Buffer.alloc(64 * 1024, 'x');
    write(filter, begin);
    expect(sameBuffers(write(filter, part), [begin, part])).toBe(true);
    for (let i = 1; i < 1024; i++)
      if (write(filter, part)[0] !== part) expect.fail(`part ${i} was held back`);
    expect(filter.end()).toEqual([]);
  });
});

function newFilter(): UsageEventFilter {
  return new UsageEventFilter(new UsageMeter());
}

function filtered(chunks: readonly Buffer[]): string {
  const filter = newFilter();
  return Buffer.concat([...chunks.flatMap((chunk) => write(filter, chunk)), ...filter.end()]).toString();
}

function sameBuffers(buffers: readonly Buffer[], expected: readonly Buffer[]): boolean {
  return buffers.length === expected.length && buffers.every((buffer, i) => buffer === expected[i]);
}

function withLineEnd(text: string, lineEnd: string): string {
  return text.replaceAll('\n', lineEnd);
}

function byteByByte(bytes: Buffer): readonly Buffer[] {
  return Array.from(bytes, (_, i) => bytes.subarray(i, i + 1));
}

/** Cut into pieces of these lengths, again and again. */
function inPieces(bytes: Buffer, lengths: readonly number[]): readonly Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += pieces.at(-1)!.length) {
    pieces.push(bytes.subarray(at, at + lengths[pieces.length % lengths.length]!));
  }
  return pieces;
}

/** What may go on after a chunk, as a list. */
function write(filter: UsageEventFilter, chunk: Buffer): Buffer[] {
  return [filter.write(chunk)].flat();
}
