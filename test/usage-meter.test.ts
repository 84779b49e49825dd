import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { UsageMeter } from '../src/metering/usage-meter.ts';

const USAGE = '"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}';
const TEXT =
  '{"id":"c","choices":[{"index":0,"delta":{"content":"Hé 😀\\n\\u00e9"},"finish_reason":null}],"usage":null}';
const STOP = '{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}';
const DECOY = JSON.stringify({
  choices: [{ delta: { content: `"usage":{"prompt_tokens":1}}\n\ndata: {${USAGE}}` } }],
});
const OPENAI = `data: ${TEXT}\n\ndata: ${STOP}\n\ndata: {"choices":[],${USAGE}}\n\ndata: [DONE]\n\n`;

/** Each of them ends with 9 and 12 tokens. */
const ANSWERS: readonly [name: string, answer: string][] = [
  ['OpenAI’s events', OPENAI],
  ['CRLF', OPENAI.replaceAll('\n', '\r\n')],
  ['CR', OPENAI.replaceAll('\n', '\r')],
  ['mixed line ends', `data: ${TEXT}\r\n\ndata: ${STOP}\n\r\ndata: {${USAGE}}\r\r`],
  ['no blank after data:', OPENAI.replaceAll('data: ', 'data:')],
  ['a byte order mark', `\ufeff${OPENAI}`],
  [
    'comments and other fields',
    `: hi\n\nretry: 5\nid: 1\nevent: message\n:x\ndata: {${USAGE}}\nfoo\n\n: bye\n\n`,
  ],
  ['blanks before line ends', OPENAI.replaceAll('\n\n', ' \n\n')],
  ['usage with the end', `data: {"choices":[{"finish_reason":"stop"}],${USAGE}}\n\ndata: [DONE]\n\n`],
  ['usage after [DONE]', `data: [DONE]\n\ndata: {${USAGE}}\n\n`],
  [
    'JSON over many lines of data',
    `data: {\ndata: "choices":\ndata: [\ndata: ],\ndata: ${USAGE}\ndata: }\n\n`,
  ],
  ['a last line without its end', `data: ${TEXT}\n\ndata: {${USAGE}}`],
  ['a last chunk that is cut after its usage', `data: {"choices":[],${USAGE}`],
  ['broken events in between', `data: {"usage":{"pro\n\ndata: nonsense\n\ndata: }\n\ndata: {${USAGE}}\n\n`],
  ['decoys', `data: ${DECOY}\n\ndata: {${USAGE}}\n\ndata: ${DECOY}\n\n`],
  ['JSON', `{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}],${USAGE}}\n`],
  ['JSON after blank lines', `\ufeff \r\n\n{"x":[[{}],"]}"],${USAGE}}`],
  ['keys written as escapes', `{"us\\u0061ge":{"prompt_tokens":9,"compl\\u0065tion_tokens":12}}`],
  ['JSON that is cut after its usage', `{${USAGE},"choices":[{"mess`],
];

describe('the meter', () => {
  it.each(ANSWERS)('reads the same wherever the bytes are cut: %s', (_name, answer) => {
    const bytes = Buffer.from(answer);
    const whole = stateOf([bytes]);
    expect(whole.usage).toMatchObject({ promptTokens: 9, completionTokens: 12 });
    for (let cut = 0; cut <= bytes.length; cut++) {
      expect(stateOf([bytes.subarray(0, cut), bytes.subarray(cut)]), `cut at byte ${cut}`).toEqual(whole);
    }
    expect(stateOf(Array.from(bytes, (byte) => Buffer.of(byte)))).toEqual(whole);
  });

  it.each([
    ['content', { choices: [{ delta: { content: `{${USAGE}}` } }] }],
    ['tool arguments', { choices: [{ delta: { tool_calls: [{ function: { arguments: `{${USAGE}}` } }] } }] }],
    ['an object inside a delta', { choices: [{ delta: JSON.parse(`{${USAGE}}`) as unknown }] }],
    ['metadata', { metadata: JSON.parse(`{${USAGE}}`) as unknown, choices: [] }],
    ['a key in another case', { Usage: { prompt_tokens: 9, completion_tokens: 12 } }],
    ['a list', [{ usage: { prompt_tokens: 9, completion_tokens: 12 } }]],
  ])('takes no usage out of %s', (_place, answer) => {
    const json = JSON.stringify(answer);
    expect(read(json).usage).toBeUndefined();
    expect(read(`data: ${json}\n\n`).usage).toBeUndefined();
  });

  it.each([
    'data: {"usage":{"prompt_tokens":9,"completion_tokens":1',
    '{"usage":{"prompt_tokens":9,"completion_tokens":1',
  ])('takes no usage that is cut in the middle of a count: %s', (answer) => {
    expect(read(answer).usage).toBeUndefined();
  });

  it('reads usage at the end of a line of 64 MiB, and keeps nothing of it', () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const meter = new UsageMeter();
    const part = Buffer.alloc(64 * 1024, 'x');
    meter.write(Buffer.from('data: {"choices":[{"delta":{"content":"'));
    meter.write(part);
    collect();
    const before = process.memoryUsage();
    for (let i = 1; i < 1024; i++) meter.write(part);
    collect();
    const after = process.memoryUsage();
    expect(after.heapUsed + after.external - before.heapUsed - before.external).toBeLessThan(2_000_000);
    meter.write(Buffer.from(`"}}],${USAGE}}\n\n`));
    expect(meter.usage).toMatchObject({ promptTokens: 9 });
    expect(meter.delivered).toEqual({ ascii: 67_108_864, nonAscii: 0 });
  });

  it('reads one stream of chunks as it would read each of them alone', () => {
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

  it('is between two events after each blank line, and after a comment', () => {
    const stream = 'data: 1\n\n: hi\nid: 1\ndata: 2\r\n\r\ndata: 3\r\rdata: 4';
    const between = Array.from(stream, (_, i) => i + 1).filter(
      (end) => read(stream.slice(0, end), false).betweenEvents,
    );
    const ends = ['data: 1\n\n', ': hi\n', 'id: 1\ndata: 2\r\n\r', '\n', 'data: 3\r\r'];
    expect(between).toEqual(ends.map((_, i) => ends.slice(0, i + 1).join('').length));
  });

  it('is never between two events in JSON', () => {
    expect(read('{}\n').betweenEvents).toBe(false);
  });

  it.each(['data: [DONE]\n\n', 'data:[DONE]', 'data: [DONE] \r\n\r\n', ': x\ndata: {}\n\ndata: [DONE]\n'])(
    'is done at [DONE]: %j',
    (stream) => {
      expect(read(stream).done).toBe(true);
    },
  );

  it.each([
    'data: [DON',
    'data: ["DONE"]\n\n',
    'data: "[DONE]"\n\n',
    'event: [DONE]\n\n',
    ': [DONE]\n\n',
    '[DONE]',
  ])('is not done at %j', (stream) => {
    expect(read(stream).done).toBe(false);
  });

  it.each([
    '{"error":{"message":"overloaded"}}',
    '{"code":"1","error":"no"}',
    'data: {"error":{"message":"overloaded"}}\n\n',
    `data: ${TEXT}\n\ndata: {"choices":[{"delta":{},"finish_reason":"error"}]}\n\n`,
    'event: error\ndata: {"message":"overloaded"}\n\n',
    'error: {"code":500}\n\n',
  ])('is failed when the answer says so: %s', (answer) => {
    expect(read(answer).failed).toBe(true);
  });

  it.each([
    '{"error":null,"choices":[]}',
    '{"error":"","choices":[]}',
    '{"error":false,"choices":[]}',
    '{"error":0,"choices":[]}',
    '{"choices":[{"message":{"error":"x","content":"\\"error\\":{}"}}],"metadata":{"error":"x"}}',
    'event: message\ndata: {"choices":[{"finish_reason":"stop"}]}\n\n',
  ])('is not failed by %s', (answer) => {
    expect(read(answer).failed).toBe(false);
  });

  it('is finished when a choice says why it ended', () => {
    expect(read(`data: ${STOP}\n\n`).finished).toBe(true);
    expect(read('{"choices":[{"finish_reason":"length"}]}').finished).toBe(true);
    expect(read(`data: ${TEXT}\n\n`).finished).toBe(false);
    expect(read('data: {"choices":[{"finish_reason":""}]}\n\n').finished).toBe(false);
  });

  it('stays as it was when the end is told twice', () => {
    const meter = read(`data: {${USAGE}}`);
    const { usage } = meter;
    meter.end();
    expect(meter.usage).toEqual(usage);
  });
});

function read(answer: string, end = true): UsageMeter {
  const meter = new UsageMeter();
  meter.write(Buffer.from(answer));
  if (end) meter.end();
  return meter;
}

function stateOf(chunks: readonly Buffer[]): Partial<UsageMeter> {
  const meter = new UsageMeter();
  for (const chunk of chunks) meter.write(chunk);
  const { betweenEvents } = meter;
  meter.end();
  const { usage, delivered, format, done, failed, finished } = meter;
  return { usage, delivered, format, done, failed, finished, betweenEvents } as Partial<UsageMeter>;
}
