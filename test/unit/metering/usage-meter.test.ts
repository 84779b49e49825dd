import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { UsageMeter } from '../../../src/metering/usage-meter.ts';
import { runs } from '../../helpers/runs.ts';

const HI = 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Hi é😀"}}],"usage":null}\n\n';
const STOP = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}\n\n';
const USAGE = 'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":12}}\n\n';
const DONE = 'data: [DONE]\n\n';
const DECOY = chunk(`"choices":[{"delta":{"content":${JSON.stringify(USAGE)}}}]`);
const COUNTS = { promptTokens: 9, completionTokens: 12 };

/** All that is told of an answer once it is over. */
interface Told {
  readonly usage: readonly [prompt: number, completion: number] | undefined;
  readonly ascii: number;
  readonly nonAscii: number;
  readonly flags: string;
}

const COMPLETE: Told = { usage: [9, 12], ascii: 3, nonAscii: 2, flags: 'done finished betweenEvents' };
const CUT_AFTER_TEXT: Told = { usage: [9, 12], ascii: 3, nonAscii: 2, flags: 'finished' };

const STREAMS: readonly [form: string, stream: string, told: Told][] = [
  ['lines that end with LF', HI + STOP + USAGE + DONE, COMPLETE],
  ['lines that end with CRLF', withLineEnd(HI + STOP + USAGE + DONE, '\r\n'), COMPLETE],
  ['lines that end with CR', withLineEnd(HI + STOP + USAGE + DONE, '\r'), COMPLETE],
  ['all three line ends', HI + withLineEnd(STOP, '\r\n') + withLineEnd(USAGE, '\r') + DONE, COMPLETE],
  ['a byte order mark', `\ufeff${HI}${STOP}${USAGE}${DONE}`, COMPLETE],
  ['blank lines and blanks first', `\n\r\n ${HI}${STOP}${USAGE}${DONE}`, COMPLETE],
  ['comments', `:\n\n: ping\n\n${HI}:ok\n${STOP}: data: x\n\n${USAGE}${DONE}: bye\n`, COMPLETE],
  ['one line end between events', (HI + STOP + USAGE + DONE).replaceAll('\n\n', '\n') + '\n', COMPLETE],
  [
    'one CRLF between events, and no blanks',
    (HI + STOP + USAGE + DONE).replaceAll('\n\n', '\r\n').replaceAll('data: ', 'data:') + '\r\n',
    COMPLETE,
  ],
  ['no blank after data:', (HI + STOP + USAGE + DONE).replaceAll('data: ', 'data:'), COMPLETE],
  ['a tab after data:', (HI + STOP + USAGE + DONE).replaceAll('data: {', 'data:\t{'), COMPLETE],
  ['blanks before line ends', (HI + STOP + USAGE + DONE).replaceAll('\n\n', ' \n\n'), COMPLETE],
  ['event, id and retry lines', named(HI) + named(STOP) + named(USAGE) + named(DONE), COMPLETE],
  ['JSON over several lines of data', pretty(HI) + pretty(STOP) + pretty(USAGE) + DONE, COMPLETE],
  ['a comment inside an event', HI + STOP + pretty(USAGE).replace('\n', '\n: ping\n') + DONE, COMPLETE],
  ['events without data', `${HI}event: ping\n\n${STOP}data\n\nid\n\n${USAGE}data:\n\n${DONE}`, COMPLETE],
  ['usage after [DONE]', HI + STOP + DONE + USAGE, COMPLETE],
  [
    'no [DONE]',
    HI + STOP + USAGE,
    { usage: [9, 12], ascii: 3, nonAscii: 2, flags: 'finished betweenEvents' },
  ],
  ['no reason for its end', HI + USAGE, { usage: [9, 12], ascii: 3, nonAscii: 2, flags: 'betweenEvents' }],
  ['no blank line at its end', (HI + STOP + USAGE).slice(0, -1), CUT_AFTER_TEXT],
  ['no line end at its end', (HI + STOP + USAGE).slice(0, -2), CUT_AFTER_TEXT],
  [
    '[DONE] and no line end',
    (HI + USAGE + DONE).slice(0, -2),
    { usage: [9, 12], ascii: 3, nonAscii: 2, flags: 'done finished' },
  ],
  ['usage before the cut', (HI + STOP + USAGE).slice(0, -3), CUT_AFTER_TEXT],
  [
    'usage with the cut in it',
    (HI + STOP + USAGE).slice(0, -4),
    { usage: undefined, ascii: 3, nonAscii: 2, flags: 'finished' },
  ],
  [
    'an event that is cut',
    `data: {"choices":[{"delta":{"content":"Hi\n\n${HI}${STOP}${USAGE}${DONE}`,
    COMPLETE,
  ],
  ['an event that is cut inside an escape', `data: {"x":"\\u0\n\n${HI}${STOP}${USAGE}${DONE}`, COMPLETE],
  [
    'events that are glued',
    `${USAGE.trim().replace('12', '99')}${HI}${HI}${STOP}${USAGE}${DONE}`,
    { ...COMPLETE, ascii: 6, nonAscii: 4 },
  ],
  ['usage that is glued to the last of the text', HI.trim() + USAGE + STOP + DONE, COMPLETE],
  ['events that are no JSON', `data: Hi\n\ndata: {]\n\ndata: 1\n\n${HI}${STOP}${USAGE}${DONE}`, COMPLETE],
  [
    'an error',
    `${HI}data: {"error":{"message":"Overloaded"}}\n\n`,
    { usage: undefined, ascii: 3, nonAscii: 2, flags: 'failed betweenEvents' },
  ],
  [
    'decoys in its content',
    DECOY + HI + STOP + USAGE + DECOY + DONE,
    { ...COMPLETE, ascii: 3 + 2 * USAGE.length },
  ],
  [
    'a JSON answer',
    '\n {"choices":[{"message":{"content":"Hi é😀"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":12}}\n',
    { usage: [9, 12], ascii: 3, nonAscii: 2, flags: 'finished' },
  ],
];

describe('an answer with', () => {
  it.each(STREAMS)('%s is read the same wherever it is cut', (_form, stream, told) => {
    const bytes = Buffer.from(stream);
    for (let cut = 0; cut <= bytes.length; cut++) {
      const pieces = [bytes.subarray(0, cut), bytes.subarray(cut)];
      expect(toldBy(metered(pieces)), `cut at byte ${cut}`).toEqual(told);
    }
    expect(toldBy(metered(byteByByte(bytes)))).toEqual(told);
  });
});

describe('any stream', () => {
  it('is read the same however its bytes come', () => {
    const pieces = fc.constantFrom(
      HI,
      STOP,
      USAGE,
      DONE,
      ': ping\n\n',
      ': ping\n',
      '\r',
      '\r\n',
      '\n',
      'id: 1\n',
    );
    const broken = fc.constantFrom(
      'data: {"choices":[{"delta":',
      'data: [',
      'data: [DO',
      'event: error',
      '\ufeff',
    );
    const sizes = fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 10 });
    fc.assert(
      fc.property(fc.array(fc.oneof(pieces, broken), { maxLength: 8 }), sizes, (parts, lengths) => {
        const bytes = Buffer.from(parts.join(''));
        expect(toldBy(metered(inPieces(bytes, lengths)))).toEqual(toldBy(metered([bytes])));
      }),
      { numRuns: runs(1000) },
    );
  });

  it('delivers every character of its content', () => {
    const content = fc.string({ unit: 'binary' });
    fc.assert(
      fc.property(fc.array(content), fc.nat(50), (texts, size) => {
        const events = texts.map(
          (text) => `data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n`,
        );
        const bytes = Buffer.from(events.join(''));
        const meter = new UsageMeter();
        for (let at = 0; at < bytes.length; at += size + 1) meter.write(bytes.subarray(at, at + size + 1));
        // A lone surrogate is written as an escape, which is one character too.
        const chars = texts.join('\n').replaceAll('\n', '').length;
        const pairs = texts.flatMap((text) => [...text]).filter((char) => char.length === 2).length;
        const newlines = texts.flatMap((text) => [...text]).filter((char) => char === '\n').length;
        const { ascii, nonAscii } = meter.delivered;
        expect(ascii + nonAscii).toBe(chars + newlines - pairs);
      }),
    );
  });

  it('is followed whatever its bytes are', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(toldBy(metered(byteByByte(Buffer.from(bytes))))).toEqual(
          toldBy(metered([Buffer.from(bytes)])),
        );
      }),
    );
  });
});

describe('usage counts', () => {
  it.each([
    ['on a last chunk without choices', HI + STOP + USAGE + DONE],
    ['on the chunk that ends a choice', chunk('"choices":[{"finish_reason":"stop"}],"usage":%') + DONE],
    [
      'on every chunk, the last of them',
      chunk('"choices":[{}],"usage":%', 4) + chunk('"choices":[{}],"usage":%'),
    ],
    ['in x_groq alone', chunk('"choices":[{}],"x_groq":{"id":"req_1","usage":%}') + DONE],
    ['after chunks of zeros', chunk('"choices":[{}],"usage":%', 0) + chunk('"choices":[],"usage":%')],
    ['after a moderation chunk', `${chunk('"choices":[],"moderation":{"input":{}}')}${USAGE}`],
    ['before chunks of null', `${USAGE}${HI}${STOP}${DONE}`],
    ['before the choices of its chunk', chunk('"usage":%,"choices":[]')],
    ['beside timings', chunk('"choices":[],"usage":%,"timings":{"cache_n":5,"prompt_n":4,"predicted_n":12}')],
    ['under a key with escapes', chunk(String.raw`"us\u0061ge":%`)],
    ['in JSON after blank lines', '\n\n\n{"usage":{"prompt_tokens":9,"completion_tokens":12}}'],
    ['in JSON that is cut behind it', '{"usage":{"prompt_tokens":9,"completion_tokens":12},"cho'],
    ['in JSON with something behind it', '{"usage":{"prompt_tokens":9,"completion_tokens":12}}x'],
  ])('%s', (_place, answer) => {
    expect(read(answer).usage).toMatchObject(COUNTS);
  });

  it('in the choices of two chunks, with the prompt once', () => {
    const own = (index: number): string =>
      chunk(`"choices":[{"index":${index},"finish_reason":"stop","usage":%}],"usage":null`);
    expect(metered([Buffer.from(own(0) + own(1) + DONE)]).usage).toMatchObject({
      promptTokens: 9,
      completionTokens: 24,
    });
  });

  it('as soon as its event is over', () => {
    const meter = new UsageMeter();
    meter.write(Buffer.from(USAGE.slice(0, -1)));
    expect(meter.usage).toBeUndefined();
    meter.write(Buffer.from('\n'));
    expect(meter.usage).toMatchObject(COUNTS);
  });
});

describe('usage is missing', () => {
  it.each([
    ['when it is null in every chunk', HI + STOP + DONE],
    ['when no chunk has it', chunk('"choices":[{"finish_reason":"stop"}]') + DONE],
    ['in a comment', `: ${USAGE}`],
    ['in a field that is not data', USAGE.replace('data', 'dat') + USAGE.replace('data', 'datax')],
    ['in content', chunk(`"choices":[{"delta":{"content":${JSON.stringify(USAGE)}}}]`)],
    ['as an object in a delta', chunk('"choices":[{"delta":{"usage":%}}]')],
    ['in a message', chunk('"choices":[{"message":{"content":[{"usage":%}]}}]')],
    [
      'in tool arguments',
      chunk(`"choices":[{"delta":{"tool_calls":[{"function":{"arguments":${JSON.stringify(USAGE)}}}]}}]`),
    ],
    ['in metadata', chunk('"metadata":{"usage":%}')],
    ['in usage', chunk('"usage":{"usage":%,"prompt_tokens_details":%}')],
    ['in x_groq, deeper', chunk('"x_groq":{"x":{"usage":%}}')],
    ['in an array of answers', 'data: [{"usage":{"prompt_tokens":9,"completion_tokens":12}}]\n\n'],
    ['under a key in other case', chunk('"Usage":%')],
    ['as a string', chunk('"usage":"{\\"prompt_tokens\\":9,\\"completion_tokens\\":12}"')],
    [
      'in an event that was broken before',
      'data: {"x":tru,"usage":{"prompt_tokens":9,"completion_tokens":12}}\n\n',
    ],
    ['when nothing came', ''],
  ])('%s', (_place, answer) => {
    expect(read(answer).usage).toBeUndefined();
  });
});

describe('an answer failed', () => {
  it.each([
    ['when a chunk has an error', 'data: {"error":{"message":"x"}}\n\n'],
    ['when a chunk has an error in words', 'data: {"code":"x","error":"y"}\n\n'],
    ['when a choice ended with one', chunk('"choices":[{"delta":{},"finish_reason":"error"}]')],
    ['when an event is one', `event: error\ndata: {"message":"x"}\n\n`],
    ['when an event is one, without a blank', `event:error\r\ndata: {}\r\n\r\n`],
    ['when an event is one, named behind its data', `data: {}\nevent: error\n\n`],
    ['when a field is one', `${HI}error: {"message":"x"}\n\n`],
    ['when JSON has one', '{"error":{"message":"x"},"usage":null}'],
    ['when JSON has one and is cut', '{"error":{"mess'],
  ])('%s', (_shape, answer) => {
    expect(read(answer).failed).toBe(true);
    expect(metered(byteByByte(Buffer.from(answer))).failed).toBe(true);
  });

  it.each([
    ['for an error of null', '{"choices":[],"error":null}'],
    ['for an empty error', 'data: {"error":""}\n\n'],
    ['for an error that is false or 0', 'data: {"error":false}\n\ndata: {"error":0}\n\n'],
    ['for an error deeper in', chunk('"choices":[{"error":{},"delta":{"error":"x"}}],"x":{"error":{}}')],
    ['for other ends', chunk('"choices":[{"finish_reason":"errors"},{"finish_reason":"length"}]')],
    ['for other events', 'event: errors\n\nevent: no error\n\nevents: error\n\n: error: x\n\nerrors: x\n\n'],
  ])('not %s', (_shape, answer) => {
    expect(read(answer).failed).toBe(false);
  });

  it('without its later events being lost', () => {
    const meter = metered([Buffer.from(`event: error\ndata: {"error":{}}\n\n${USAGE}`)]);
    expect(meter.usage).toMatchObject(COUNTS);
  });
});

describe('the state of an answer', () => {
  it.each([
    ['{"a":1}', 'json'],
    ['\ufeff\n [', 'json'],
    ['data: 1', 'event-stream'],
    ['\n\n: comment', 'event-stream'],
    [' \n', undefined],
    ['', undefined],
  ])('has the format that its first bytes show: %j', (answer, format) => {
    expect(read(answer).format).toBe(format);
  });

  it('is finished when a choice says why it ended', () => {
    expect(read(STOP).finished).toBe(true);
    expect(read('{"choices":[{"finish_reason":"length"}]}').finished).toBe(true);
    expect(read(HI).finished).toBe(false);
    expect(read('data: {"choices":[{"finish_reason":""}]}\n\n').finished).toBe(false);
  });

  it('stays as it was when the end is reported twice', () => {
    const meter = read(USAGE.trim());
    const { usage } = meter;
    meter.end();
    expect(meter.usage).toEqual(usage);
  });
});

describe('[DONE]', () => {
  it.each([
    'data: [DONE]',
    'data:[DONE]',
    'data: [DONE] \n',
    'id: 1\ndata: [DONE]\n',
    `${HI}data:  [DONE]\r`,
  ])('is seen in %j', (stream) => {
    expect(read(stream).done).toBe(true);
  });

  it.each([
    'data: [DONE',
    'data: DONE]',
    'data: [D,O,N,E]',
    'data: ["[DONE]"]',
    'data: "[DONE]"',
    ': [DONE]',
    '[DONE]',
    'data: {"x":"[DONE]"}',
    'data: 1\ndata: [DONE]',
  ])('is not seen in %j', (stream) => {
    expect(metered([Buffer.from(`${stream}\n\n`)]).done).toBe(false);
  });

  it('does not hide JSON whose lines begin with a bracket', () => {
    const stream =
      'data: {"choices":\ndata: [\ndata: ],"usage":\ndata: {"prompt_tokens":9,"completion_tokens":12}}\n\n';
    expect(read(stream).usage).toMatchObject(COUNTS);
  });
});

describe('a stream is between two events', () => {
  it('only after each blank line, and after a comment', () => {
    const stream = 'data: 1\n\n: hi\nid: 1\ndata: 2\r\n\r\ndata: 3\r\rdata: 4';
    const between = Array.from(stream, (_, i) => i + 1).filter(
      (end) => read(stream.slice(0, end)).betweenEvents,
    );
    const ends = ['data: 1\n\n', ': hi\n', 'id: 1\ndata: 2\r\n\r', '\n', 'data: 3\r\r'];
    expect(between).toEqual(ends.map((_, i) => ends.slice(0, i + 1).join('').length));
  });

  it('but never in JSON', () => {
    expect(read('{}\n').betweenEvents).toBe(false);
  });

  it.each([
    ['after a blank line', HI, true],
    ['after a CR that an LF may follow', withLineEnd(HI, '\r'), true],
    ['after a comment', `${HI}: ping\n`, true],
    ['but not before anything came', '', false],
    ['but not after the line of an event', HI.slice(0, -1), false],
    ['but not inside a line', HI.slice(0, -2), false],
    ['but not inside a comment', `${HI}: pi`, false],
    ['but not after the name of an event', `${HI}event: x\n`, false],
  ])('%s', (_place, stream, expected) => {
    expect(read(stream).betweenEvents).toBe(expected);
  });
});

describe('what was delivered', () => {
  it.each([
    ['content', { content: 'Hello' }, 5],
    ['reasoning', { reasoning_content: 'abc', reasoning: 'de' }, 5],
    ['a refusal', { refusal: 'No.' }, 3],
    [
      'a tool call',
      { tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }] },
      3,
    ],
    ['a function call', { function_call: { name: 'f', arguments: '{}' } }, 3],
    ['a custom tool call', { tool_calls: [{ type: 'custom', custom: { name: 'f', input: 'x' } }] }, 2],
    [
      'parts of content',
      { content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'Hm' }] }, { text: 'Hi' }] },
      4,
    ],
    ['the transcript of audio', { audio: { id: 'audio_1', data: 'UklGRg==', transcript: 'Hi' } }, 2],
  ])('is %s', (_kind, delta, ascii) => {
    expect(read(`data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`).delivered.ascii).toBe(
      ascii,
    );
    expect(read(JSON.stringify({ choices: [{ index: 0, message: delta }] })).delivered.ascii).toBe(ascii);
  });

  it.each([
    ['a role', { role: 'assistant' }],
    ['null', { content: null }],
    [
      'a link or an image',
      { images: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] },
    ],
    [
      'an annotation',
      { annotations: [{ type: 'url_citation', url_citation: { title: 'T', url: 'https://x' } }] },
    ],
    ['reasoning told a second time', { reasoning_details: [{ type: 'reasoning.text', text: 'abc' }] }],
    [
      'a signature',
      { reasoning_details: [{ data: 'AAAA' }], extra_content: { google: { thought_signature: 'A' } } },
    ],
  ])('is not %s', (_kind, delta) => {
    const choice = { index: 0, delta, finish_reason: 'stop', logprobs: { content: [{ token: 'Hello' }] } };
    const chunk = { id: 'c', model: 'm', obfuscation: 'xyz', choices: [choice] };
    expect(read(`data: ${JSON.stringify(chunk)}\n\n`).delivered).toEqual({ ascii: 0, nonAscii: 0 });
  });

  it('counts characters: an escape is one, a character of many bytes too', () => {
    const json = String.raw`{"choices":[{"delta":{"content":"a\n\"é字😀\u0041\u5b57"}}]}`;
    expect(read(json).delivered).toEqual({ ascii: 4, nonAscii: 4 });
  });

  it('grows while an event is on its way', () => {
    const meter = new UsageMeter();
    meter.write(Buffer.from('data: {"choices":[{"delta":{"content":"Hello"'));
    expect(meter.delivered.ascii).toBe(5);
  });
});

describe('memory', () => {
  it('does not grow with a line of 64 MB, whose usage at its end is read', () => {
    const meter = new UsageMeter();
    const part = Buffer.alloc(64 * 1024, 'x');
    meter.write(Buffer.from('data: {"choices":[{"delta":{"content":"'));
    for (let i = 0; i < 64; i++) meter.write(part);
    const before = memory();
    for (let i = 0; i < 960; i++) meter.write(part);
    const growth = memory() - before;
    meter.write(Buffer.from('"}}],"usage":{"prompt_tokens":9,"completion_tokens":12}}'));
    meter.end();
    expect(growth).toBeLessThan(2 * 1024 * 1024);
    expect(meter.usage).toMatchObject(COUNTS);
    expect(meter.delivered.ascii).toBe(67_108_864);
  });

  it('does not grow with the number of chunks', () => {
    const meter = new UsageMeter();
    const event = Buffer.from(HI);
    for (let i = 0; i < 50_000; i++) meter.write(event);
    const before = memory();
    for (let i = 0; i < 200_000; i++) meter.write(event);
    expect(memory() - before).toBeLessThan(4 * 1024 * 1024);
    expect(meter.delivered.nonAscii).toBe(500_000);
  });
});

/** An event with these members, `%` being a usage. */
function chunk(members: string, completion = 12): string {
  const usage = JSON.stringify({ prompt_tokens: completion && 9, completion_tokens: completion });
  return `data: {${members.replaceAll('%', usage)}}\n\n`;
}

function withLineEnd(text: string, lineEnd: string): string {
  return text.replaceAll('\n', lineEnd);
}

function named(event: string): string {
  return `event: message\nid: 7\nretry: 1000\n${event}`;
}

/** The event's JSON over as many lines of data as it can have. */
function pretty(event: string): string {
  const json: unknown = JSON.parse(event.slice('data: '.length));
  const lines = JSON.stringify(json, undefined, 2).split('\n');
  return `${lines.map((line) => `data: ${line}`).join('\n')}\n\n`;
}

function read(answer: string): UsageMeter {
  return metered([Buffer.from(answer)]);
}

function metered(pieces: readonly Buffer[]): UsageMeter {
  const meter = new UsageMeter();
  for (const piece of pieces) meter.write(piece);
  meter.end();
  return meter;
}

function toldBy(meter: UsageMeter): Told {
  const { usage, delivered } = meter;
  const flags = (['done', 'failed', 'finished', 'betweenEvents'] as const).filter((flag) => meter[flag]);
  return {
    usage: usage && [usage.promptTokens, usage.completionTokens],
    ...delivered,
    flags: flags.join(' '),
  };
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

/** Bytes in use, garbage aside. */
function memory(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
