import { isUtf8 } from 'node:buffer';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { InvalidRequestError } from '../../../src/errors/request-errors.ts';
import type { ChatRequest } from '../../../src/http/chat-request.ts';
import { ChatRequestScanner, scanWhole } from '../../../src/http/scan-request.ts';
import { REJECTED_FIELDS } from '../../../src/http/rejected-fields.ts';
import { MESSAGES, request, scan } from '../../helpers/scanned-request.ts';
import { runs } from '../../helpers/runs.ts';

describe('the values that the router acts on', () => {
  it('are read from a plain request', () => {
    expect(scan(`{"model":"a/b",${MESSAGES},"stream":true,"n":2,"max_tokens":5}`)).toMatchObject({
      model: 'a/b',
      stream: true,
      n: 2,
      maxTokens: 5,
      maxCompletionTokens: undefined,
      includeUsage: undefined,
    });
  });

  it('have defaults', () => {
    expect(scan(request())).toMatchObject({ stream: false, n: 1, maxTokens: undefined });
  });

  it('may be null', () => {
    const nulls =
      '"stream":null,"n":null,"max_tokens":null,"max_completion_tokens":null,"stream_options":null';
    expect(scan(request(nulls))).toMatchObject({ stream: false, n: 1, maxCompletionTokens: undefined });
  });

  it.each(['1.0', '1e0', '10E-1'])('takes the integer %s however it is written', (number) => {
    expect(scan(request(`"max_tokens":${number}`)).maxTokens).toBe(1);
  });

  it.each([
    ['true', true],
    ['false', false],
    ['null', undefined],
  ])('says what include_usage %s means', (value, includeUsage) => {
    expect(scan(request(`"stream_options":{"include_usage":${value}}`)).includeUsage).toBe(includeUsage);
  });

  it('decodes escapes in keys and values', () => {
    const body = String.raw`{"mod\u0065l":"\u0061\/b","\u006Dessages":[],"stre\u0061m":true}`;
    expect(scan(body)).toMatchObject({ model: 'a/b', stream: true });
  });

  it('reads only the top level', () => {
    const decoys =
      '"tools":[{"model":"x","n":9}],"metadata":{"model":"y","models":[]},"user":"\\"model\\":1"';
    expect(scan(request(decoys))).toMatchObject({ model: 'm', n: 1 });
  });

  it('takes white space anywhere and keeps it out of values', () => {
    expect(scan(' \r\n\t{ "model" : "m" , "messages" : [ ] , "n" : 3 } \n').n).toBe(3);
  });

  it('treats __proto__ and constructor as ordinary keys', () => {
    expect(scan(request('"__proto__":{"model":"x"},"constructor":{"prototype":{"n":7}}')).n).toBe(1);
  });

  it('lets lone surrogates in a model be a model that does not exist', () => {
    expect(scan(String.raw`{"model":"\ud800","messages":["\udfff"]}`).model).toBe('\ud800');
  });
});

describe('a request that can not be used', () => {
  it.each(['[]', 'null', '"text"', '12', '-0.5e3', 'true'])('is told that %s is no object', (body) => {
    expect(refusal(body)).toMatchObject({ code: 'invalid_type', param: null });
  });

  it.each([
    ['{}', 'missing_required_parameter', 'model'],
    ['{"messages":5}', 'missing_required_parameter', 'model'],
    ['{"model":null}', 'invalid_type', 'model'],
    ['{"model":["m"],"messages":[]}', 'invalid_type', 'model'],
    ['{"model":"m"}', 'missing_required_parameter', 'messages'],
    ['{"model":"m","messages":{}}', 'invalid_type', 'messages'],
    ['{"model":"m","messages":null,"n":0}', 'invalid_type', 'messages'],
  ])('is judged in order: object, model, messages: %s', (body, code, param) => {
    expect(refusal(body)).toMatchObject({ code, param });
  });

  it('is refused for a model of more than a kilobyte', () => {
    expect(refusal(`{"model":"${'m'.repeat(2000)}",${MESSAGES}}`)).toMatchObject({ param: 'model' });
  });

  it.each([
    ['stream', ['1', '"true"', '{}', '[]']],
    ['n', ['0', '129', '1.5', '-1', '"2"', 'true', '[1]']],
    ['max_tokens', ['0', '-5', '1.5', '1e400', '9007199254740992', '"5"', `1${'0'.repeat(2000)}`]],
    ['max_completion_tokens', ['0', '-0', '1e-400', 'false', '{}']],
    ['stream_options', ['5', '""', 'true', '[]', '[{"include_usage":true}]']],
  ])('is refused for a wrong %s', (field, values) => {
    for (const value of values) {
      expect(refusal(request(`"${field}":${value}`)), `${field}: ${value}`).toMatchObject({
        code: 'invalid_type',
        param: field,
      });
    }
  });

  it.each(['0', '1', '"x"', '"no"', '[]', '{"include_usage":false}'])(
    'is refused for include_usage %s, streaming or not',
    (value) => {
      for (const stream of [true, false]) {
        const fields = `"stream":${stream},"stream_options":{"include_usage":${value}}`;
        expect(refusal(request(fields))).toMatchObject({
          code: 'invalid_type',
          param: 'stream_options.include_usage',
        });
      }
    },
  );
});

describe('a field that two parsers could read differently', () => {
  it.each([
    ['model', '"model":"x"'],
    ['model', String.raw`"mod\u0065l":"x"`],
    ['model', '"Model":"x"'],
    ['messages', '"messages":[]'],
    ['messages', '"meſſages":[]'],
    ['messages', String.raw`"me\u017f\u017Fages":[]`],
    ['stream', '"stream":true,"stream":true'],
    ['stream', '"\u017ftream":true'],
    ['max_tokens', '"max_to\u212Aens":9'],
    ['max_tokens', String.raw`"max_to\u212aens":9`],
    ['max_tokens', '"max_tokens":1,"max_tokens":null'],
    ['max_completion_tokens', '"MAX_COMPLETION_TOKENS":1'],
    ['n', '"N":1'],
    ['stream_options', '"stream_options":null,"stream_options":{"include_usage":false}'],
    ['stream_options', String.raw`"stream_options":{},"stream\u005foptions":{"include_usage":false}`],
    ['stream_options.include_usage', '"stream_options":{"include_usage":true,"include_usage":false}'],
    ['stream_options.include_usage', '"stream_options":{"Include_Usage":true}'],
  ])('%s is refused as ambiguous: %s', (param, fields) => {
    expect(refusal(request(fields))).toMatchObject({ code: 'ambiguous_parameter', param });
  });

  it('is refused in another case even where the field itself is missing', () => {
    expect(refusal(`{"MODEL":"x",${MESSAGES}}`)).toMatchObject({
      code: 'ambiguous_parameter',
      param: 'model',
    });
  });

  it('may be any other field', () => {
    expect(scan(request('"seed":1,"seed":2,"Seed":3,"modél":4,"model_":5,"mode":6')).model).toBe('m');
  });
});

describe('a field by which a client could leave the priced model', () => {
  it.each(Object.keys(REJECTED_FIELDS))('%s is refused by its name, in any case', (field) => {
    for (const key of [field, field.toUpperCase()]) {
      expect(refusal(request(`"${key}":null`))).toMatchObject({
        code: 'unsupported_parameter',
        param: field,
      });
    }
  });

  it.each([
    ['{"api_base":"http://x"}', 'extra_body.api_base'],
    ['{"extra_body":{"Model":"x"}}', 'extra_body.model'],
    ['{"google":{},"max_tokens":9}', 'extra_body.max_tokens'],
  ])('is refused inside extra_body, too: %s', (extra, param) => {
    expect(refusal(request(`"extra_body":${extra}`))).toMatchObject({ code: 'unsupported_parameter', param });
  });

  it('passes where it is not one', () => {
    const fields = '"extra_body":{"google":{"models":1}},"metadata":{"provider":"x"},"web_search_options":{}';
    expect(scan(request(fields)).model).toBe('m');
  });

  it('ends the reading of the body at once', () => {
    expect(() => new ChatRequestScanner().write(Buffer.from('{"models":'))).toThrow(InvalidRequestError);
  });
});

describe('a body that is not JSON', () => {
  it.each([
    '',
    ' ',
    'nope',
    'NaN',
    'nul',
    'truefalse',
    '{"a":1}}',
    '{} x',
    '{}{}',
    '{,}',
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '{"a" 1}',
    '{a:1}',
    "{'a':1}",
    '{"a":[1,]}',
    '{"a":[,1]}',
    '{"a":[1 2]}',
    '{"a":[1}',
    '{"a":1]',
    '{"a":1}/* c */',
    '{"a":1} // c',
    '{"a":NaN}',
    '{"a":Infinity}',
    '{"a":undefined}',
    '{"a":01}',
    '{"a":-}',
    '{"a":+1}',
    '{"a":1.}',
    '{"a":.5}',
    '{"a":1e}',
    '{"a":1e+}',
    '{"a":0x10}',
    '{"a":"\n"}',
    '{"a":"\u0000"}',
    String.raw`{"a":"\x41"}`,
    String.raw`{"a":"\u00g1"}`,
    String.raw`{"a":"\u12"}`,
    '{"a":"\\',
    '{"a":1}\u00a0',
    '\u00a0{}',
  ])('is refused: %j', (body) => {
    expect(refusal(body)).toMatchObject({ code: 'invalid_json', param: null });
  });

  it('is refused with a byte order mark, which is named', () => {
    expect(refusal(`\ufeff${request()}`).message).toContain('byte order mark');
    expect(refusal(`\ufeff${request()}`).code).toBe('invalid_json');
  });

  it.each(['c080', 'c1bf', 'e08080', 'eda080', 'f08080af', 'f4908080', 'f5808080', '80', 'ff', 'e4bd', 'c3'])(
    'is refused for the bytes %s, which are no UTF-8',
    (hex) => {
      const body = Buffer.concat([Buffer.from('{"a":"'), Buffer.from(hex, 'hex'), Buffer.from('"}')]);
      expect(refusal(body).code).toBe('invalid_json');
    },
  );

  it('is refused wherever it is cut off', () => {
    const fields = String.raw`"n":1,"stream":true,"x":[-1.5e+3,null,false,{"é":"\u00e9\n😀"}]`;
    const body = Buffer.from(request(fields));
    for (let cut = 0; cut < body.length; cut++) {
      expect(refusal(body.subarray(0, cut)).code, `cut at byte ${cut}`).toBe('invalid_json');
    }
  });

  it.each(['[', '{"a":'])('is refused when %s nests it deeper than 1,000 levels', (open) => {
    const close = open === '[' ? ']' : '}';
    const nested = (levels: number) => request(`"x":${open.repeat(levels)}1${close.repeat(levels)}`);
    expect(scan(nested(999)).model).toBe('m');
    expect(refusal(nested(1000)).code).toBe('invalid_json');
    expect(refusal(open.repeat(100_000)).code).toBe('invalid_json');
  });

  it('is exactly what JSON.parse does not take', () => {
    fc.assert(
      fc.property(mutatedJson(), cuts(), (document, at) => {
        const body = request(`"x":${document}`);
        expect(isJson(body, at)).toBe(parses(body));
      }),
      { numRuns: runs(2000) },
    );
  });

  it('is refused for exactly those bytes in a string that are not UTF-8', () => {
    const byte = fc.constantFrom(...Buffer.from('a\x7fé߿ࠀ你퟿𐀀\u{10ffff}'), 0xc1, 0xed, 0xf5, 0xff);
    fc.assert(
      fc.property(fc.array(byte, { maxLength: 6 }), cuts(), (bytes, at) => {
        const body = Buffer.concat([Buffer.from('{"x":"'), Buffer.from(bytes), Buffer.from('"}')]);
        expect(isJson(body, at)).toBe(isUtf8(body));
      }),
      { numRuns: runs(2000) },
    );
  });

  it('is never refused for what JSON.stringify writes', () => {
    fc.assert(
      fc.property(fc.jsonValue(), cuts(), (value, at) => {
        expect(isJson(request(`"x":${JSON.stringify(value, null, 1)}`), at)).toBe(true);
      }),
    );
  });
});

describe('a body that arrives in pieces', () => {
  const BODY = Buffer.from(
    String.raw`{ "mod\u0065l":"é/😀\n", "messages":[{"content":[{"image_url":{"url":"data:;base64,QQ=="}}]}],
      "stream":true, "stream_options":{"include_us\u0061ge":false}, "max_tokens":10.0e+1, "tools":[-1.5, {}] }`,
  );

  it('is read the same wherever it is cut', () => {
    const whole = scan(BODY);
    for (let cut = 0; cut <= BODY.length; cut++) {
      expect(scan(BODY, [cut]), `cut at byte ${cut}`).toEqual(whole);
    }
    expect(scan(BODY, Array.from(BODY.keys()))).toEqual(whole);
  });

  it('is refused the same wherever it is cut', () => {
    fc.assert(
      fc.property(mutatedJson(), cuts(), (document, at) => {
        expect(outcome(Buffer.from(document), at)).toEqual(outcome(Buffer.from(document)));
      }),
    );
  });

  it('is not kept: 64 MB of text take no memory', () => {
    const chunk = Buffer.alloc(64 * 1024, 'x');
    const scanner = new ChatRequestScanner();
    scanner.write(Buffer.from('{"model":"m","messages":[{"role":"user","content":"'));
    const before = process.memoryUsage();
    for (let sent = 0; sent < 1024; sent++) scanner.write(chunk);
    const after = process.memoryUsage();
    scanner.write(Buffer.from('"}]}'));

    expect(scanner.end().size.asciiChars).toBeGreaterThan(64 * 1024 * 1024);
    expect(after.heapUsed - before.heapUsed).toBeLessThan(4 * 1024 * 1024);
    expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(4 * 1024 * 1024);
  });
});

describe('a body that is whole', () => {
  it('is read as if it had come in pieces', async () => {
    const body = Buffer.from(request(`"x":"${'x'.repeat(1_000_000)}"`));
    expect(await scanWhole(body)).toEqual(scan(body));
  });

  it('lets others run after each 64 KiB at the latest', async () => {
    let turns = 0;
    let next = setImmediate(function count() {
      turns++;
      next = setImmediate(count);
    });
    await scanWhole(Buffer.from(request(`"x":"${'x'.repeat(4 * 256 * 1024)}"`)));
    clearImmediate(next);
    expect(turns).toBeGreaterThanOrEqual(16);
  });

  it('waits no turn when it is one slice', async () => {
    let waited = false;
    setImmediate(() => {
      waited = true;
    });
    await scanWhole(Buffer.from(request()));
    expect(waited).toBe(false);
  });

  it('is refused when it is empty', async () => {
    await expect(scanWhole(Buffer.alloc(0))).rejects.toMatchObject({ code: 'invalid_json' });
  });
});

function outcome(body: string | Buffer, at?: readonly number[]): ChatRequest | InvalidRequestError {
  try {
    return scan(body, at);
  } catch (error) {
    if (error instanceof InvalidRequestError) return error;
    throw error;
  }
}

function refusal(body: string | Buffer): InvalidRequestError {
  const result = outcome(body);
  if (result instanceof InvalidRequestError) return result;
  throw new Error('The request was accepted');
}

/** Whether the scanner takes a body for JSON, whatever else it says about it. */
function isJson(body: string | Buffer, at: readonly number[]): boolean {
  const result = outcome(body, at);
  return !(result instanceof InvalidRequestError && result.code === 'invalid_json');
}

function parses(document: string): boolean {
  try {
    JSON.parse(document);
    return true;
  } catch {
    return false;
  }
}

function cuts(): fc.Arbitrary<number[]> {
  return fc.array(fc.nat(300), { maxLength: 8 });
}

/** JSON in which some characters were replaced, taken out or put in: some of it is still JSON. */
function mutatedJson(): fc.Arbitrary<string> {
  const piece = fc.constantFrom(
    ...Array.from('{}[]":,\\ \n\t0123456789.eE+-tfnu/aé😀'),
    'true',
    'null',
    '\\u00e9',
    '""',
  );
  const change = fc.record({ at: fc.nat(60), remove: fc.nat(2), insert: fc.oneof(fc.constant(''), piece) });
  return fc.tuple(fc.json(), fc.array(change, { maxLength: 3 })).map(([json, changes]) => {
    const chars = Array.from(json);
    for (const { at, remove, insert } of changes) chars.splice(at % (chars.length + 1), remove, insert);
    return chars.join('');
  });
}
