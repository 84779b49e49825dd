import { describe, expect, it } from 'vitest';

import { scanWhole } from '../../../src/http/scan-request.ts';
import { readMessages, withMessages } from '../../../src/http/messages.ts';

const MANY = 1_000_000;

/** The messages of a body, as they are read from chunks of `size` bytes. */
async function read(messages: string, { size = 1 << 20, maxBytes = MANY } = {}): Promise<unknown> {
  const body = Buffer.from(
    `{"tools":[{"a":1}],"messages" : ${messages} ,"model":"m","metadata":{"messages":"x"}}`,
  );
  const { messages: span } = await scanWhole(body);
  const chunks = Array.from({ length: Math.ceil(body.length / size) }, (_, n) =>
    body.subarray(n * size, (n + 1) * size),
  );
  return readMessages(chunks, span, maxBytes);
}

describe('messages of a body', () => {
  it.each([1, 7, 1 << 20])('are what JSON.parse makes of them, in chunks of %d bytes', async (size) => {
    const messages =
      '[{"role":"user","content":[{"type":"text","text":"\\u00e9 é 日本 \\ud800"},{}]}, {"n":1e2}]';
    expect(await read(messages, { size })).toEqual(JSON.parse(messages));
  });

  it('may be none', async () => {
    expect(await read('[ ]')).toEqual([]);
  });

  it('keep names of prototypes as plain members', async () => {
    const [message] = (await read('[{"__proto__":{"admin":true},"constructor":1}]')) as object[];
    expect(Object.keys(message ?? {})).toEqual(['__proto__', 'constructor']);
    expect(Reflect.get({}, 'admin')).toBeUndefined();
  });

  it.each([
    ['null', '[null]', 'messages[0]'],
    ['a text', '[{},"x"]', 'messages[1]'],
    ['a list', '[[]]', 'messages[0]'],
  ])('must be objects, not %s', async (_, messages, param) => {
    await expect(read(messages)).rejects.toMatchObject({ code: 'invalid_type', status: 400, param });
  });

  it.each([
    ['the same member twice', '[{"content":"fine","content":"bad"}]', 'messages'],
    ['the same member twice, one escaped', '[{"content":"fine","c\\u006fntent":"bad"}]', 'messages'],
    ['the same member twice, deep inside', '[{"content":[{"x":{"a":1,"a":2}}]}]', 'messages'],
    ['a prototype twice', '[{"__proto__":1,"__proto__":2}]', 'messages'],
    ['Content', '[{"role":"user","Content":"bad"}]', 'messages[0].content'],
    [
      'content with another s, as TEXT in a part',
      '[{"content":[{"TEXT":"bad"}]}]',
      'messages[0].content[0].text',
    ],
    ['refuſal, with a long s', '[{"refuſal":"bad"}]', 'messages[0].refusal'],
  ])('that some parser could read otherwise are refused: %s', async (_, messages, param) => {
    await expect(read(messages)).rejects.toMatchObject({ code: 'ambiguous_parameter', status: 400, param });
  });

  it('may have any members in the arguments of tools', async () => {
    const messages =
      '[{"role":"user","content":[{"type":"tool_use","input":{"Content":1,"text":2,"Text":3}}]}]';
    expect(await read(messages)).toEqual(JSON.parse(messages));
  });

  it('have a bound in bytes', async () => {
    const messages = '[{"content":"1234567890"}]';
    expect(await read(messages, { maxBytes: 26 })).toHaveLength(1);
    await expect(read(messages, { maxBytes: 25 })).rejects.toMatchObject({
      status: 413,
      code: 'request_too_large',
      message: 'The messages have 26 bytes; at most 25 are accepted.',
    });
  });

  it('have a bound in values: the list, and what is in it', async () => {
    const messages = (values: number): string => `[{"a":[${'1,'.repeat(values - 4)}1]}]`;
    expect(await read(messages(100_000))).toHaveLength(1);
    await expect(read(messages(100_001))).rejects.toMatchObject({ status: 413, code: 'request_too_large' });
  });

  it('are replaced where they stand', () => {
    const body = Buffer.from('{"messages":[1],"model":"m"}');
    const chunks = [body.subarray(0, 13), body.subarray(13, 14), body.subarray(14)];
    const replaced = withMessages(chunks, { start: 12, end: 15 }, '[2,3]');
    expect(Buffer.concat(replaced).toString()).toBe('{"messages":[2,3],"model":"m"}');
  });
});
