import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { ChatRequestScanner } from '../../../src/http/scan-request.ts';
import { type RequestEdits, spliceRequest } from '../../../src/http/splice-request.ts';
import { runs } from '../../helpers/runs.ts';

describe('a request without edits', () => {
  it('is the same Buffer', () => {
    const body = Buffer.from('{"model":"m","messages":[],"stream":true}');
    const pieces = [body];
    expect(spliceRequest(pieces, scan(body), {})).toBe(pieces);
  });

  it('is the same Buffer when its limit is low enough', () => {
    const body = Buffer.from('{"model":"m","messages":[],"max_tokens":5}');
    const pieces = [body];
    const outputLimit = { field: 'max_tokens', tokens: 5, inserts: true, moves: true } as const;
    expect(spliceRequest(pieces, scan(body), { outputLimit })).toBe(pieces);
  });
});

describe('the model', () => {
  it('is replaced in place, and nothing else is', () => {
    const body = String.raw` { "a":12345678901234567890, "b":1.0, "c":-0, "d":1E400, "e":"\ud800", "e":"\/",
      "mod\u0065l" : "\u0061", "__proto__":{"model":"a"}, "messages":[{"model":"a"}] } `;
    expect(splice(body, { model: 'b/c' })).toBe(body.replace(String.raw`"\u0061"`, () => '"b/c"'));
  });

  it.each(['$&', "$'$`", 'a"b\\c', 'é😀', ''])('may be named %j', (model) => {
    expect(splice('{"model":"m","messages":[]}', { model })).toBe(
      `{"model":${JSON.stringify(model)},"messages":[]}`,
    );
  });
});

describe('usage in a stream', () => {
  const ASKED = '"stream_options":{"include_usage":true}';

  it.each([
    ['{"model":"m","messages":[],"stream":true}', `{"model":"m",${ASKED},"messages":[],"stream":true}`],
    ['{"messages":[],"stream":true,"model":"m"}', `{"messages":[],"stream":true,"model":"m",${ASKED}}`],
    ['"stream_options":null', ASKED],
    ['"stream_options" : { }', '"stream_options" : {"include_usage":true }'],
    ['"stream_options":{ "a":[1]}', '"stream_options":{"include_usage":true, "a":[1]}'],
    ['"stream_options":{"a":1,"include_usage":false }', '"stream_options":{"a":1,"include_usage":true }'],
    ['"stream_options":{"include_usage": null}', '"stream_options":{"include_usage": true}'],
    [
      String.raw`"stream_options":{"include_us\u0061ge":false}`,
      String.raw`"stream_options":{"include_us\u0061ge":true}`,
    ],
  ])('is asked for: %s', (before, after) => {
    expect(splice(streaming(before), { includeUsage: true })).toBe(streaming(after));
  });

  it('is not touched where it is asked for already', () => {
    const options = '"stream_options":{"include_usage":true}';
    expect(splice(streaming(options), { includeUsage: true })).toBe(streaming(options));
  });

  it('is not asked for where nothing streams', () => {
    const body = '{"model":"m","messages":[],"stream_options":null,"stream":false}';
    expect(splice(body, { includeUsage: true })).toBe(body);
  });
});

describe('an output limit', () => {
  const outputLimit = { field: 'max_completion_tokens', tokens: 7, inserts: true, moves: true } as const;
  const limit = { outputLimit };

  it.each([
    ['"max_completion_tokens": 1e3 ', '"max_completion_tokens": 7 '],
    ['"max_tokens":8,"max_completion_tokens":9', '"max_tokens":7,"max_completion_tokens":7'],
    ['"max_tokens":6,"max_completion_tokens":9', '"max_tokens":6,"max_completion_tokens":7'],
    ['"max_tokens":null,"max_completion_tokens":9', '"max_tokens":null,"max_completion_tokens":7'],
    ['"max_completion_tokens":null', '"max_completion_tokens":7'],
  ])('is lowered where it stands: %s', (before, after) => {
    expect(splice(withFields(before), limit)).toBe(withFields(after));
  });

  it('moves to the field of the provider, which may not know the other one', () => {
    expect(splice(withFields('"max_tokens" : 8'), limit)).toBe(withFields('"max_completion_tokens" : 7'));
    expect(splice(withFields('"max_tokens":6'), limit)).toBe(withFields('"max_completion_tokens":6'));
    expect(splice(withFields(String.raw`"max_t\u006fkens":6`), limit)).toBe(
      withFields('"max_completion_tokens":6'),
    );
    expect(splice(withFields('"max_tokens":8,"max_completion_tokens":null'), limit)).toBe(
      withFields('"max_tokens":null,"max_completion_tokens":7'),
    );
  });

  it('stays in the other field where the provider may obey that', () => {
    const stays = { outputLimit: { ...outputLimit, moves: false } };
    expect(splice(withFields('"max_tokens":8'), stays)).toBe(withFields('"max_tokens":7'));
    expect(splice(withFields('"max_tokens":6'), stays)).toBe(withFields('"max_tokens":6'));
  });

  it('is not added where it is only to be lowered', () => {
    const lowers = { outputLimit: { ...outputLimit, inserts: false } };
    expect(splice(withFields('"max_tokens":null'), lowers)).toBe(withFields('"max_tokens":null'));
    expect(splice('{"messages":[],"model":"m"}', lowers)).toBe('{"messages":[],"model":"m"}');
  });

  it('is added in the field of the provider when there is none', () => {
    expect(splice('{"messages":[],"model":"m"}', limit)).toBe(
      '{"messages":[],"model":"m","max_completion_tokens":7}',
    );
    expect(splice(withFields('"max_tokens":null'), limit)).toBe(
      '{"model":"m","max_completion_tokens":7,"messages":[],"max_tokens":null}',
    );
  });
});

describe('all edits together', () => {
  it('land next to one another in the smallest of requests', () => {
    const asked = {
      model: 'x',
      includeUsage: true,
      outputLimit: { field: 'max_tokens', tokens: 1, inserts: true, moves: true },
    } as const;
    expect(splice('{"messages":[],"stream":true,"model":"m"}', asked)).toBe(
      '{"messages":[],"stream":true,"model":"x","stream_options":{"include_usage":true},"max_tokens":1}',
    );
  });

  it('say what was asked, and change the meaning of nothing else', () => {
    fc.assert(
      fc.property(requests(), edits(), (members, asked) => {
        const body = textOf(members);
        const meant: Meaning = JSON.parse(body);
        expect(JSON.parse(splice(body, asked))).toEqual(edited(meant, asked));
      }),
      { numRuns: runs(1000) },
    );
  });

  it('leave every byte outside of them as it was', () => {
    fc.assert(
      fc.property(requests(), edits(), (members, asked) => {
        expect(splice(textOf(members), asked)).toBe(textOf(rewritten(members, asked)));
      }),
      { numRuns: runs(1000) },
    );
  });
});

function scan(body: Buffer): ReturnType<ChatRequestScanner['end']> {
  const scanner = new ChatRequestScanner();
  scanner.write(body);
  return scanner.end();
}

function splice(body: string, asked: RequestEdits): string {
  const bytes = Buffer.from(body);
  return Buffer.concat(spliceRequest([bytes], scan(bytes), asked)).toString();
}

function withFields(fields: string): string {
  return `{"model":"m","messages":[],${fields}}`;
}

/** A whole body as it is; fields as those of a streaming request. */
function streaming(fields: string): string {
  return fields.startsWith('{') ? fields : `{"model":"m","messages":[],"stream":true,${fields}}`;
}

/** A member as it is written: its key, what follows up to the value, the value, what follows that. */
type Member = readonly [key: string, colon: string, value: string, space: string];
type Meaning = Record<string, unknown>;

/** Values of stream_options, and what asking for usage makes of them. */
const STREAM_OPTIONS: Readonly<Record<string, string>> = {
  null: '{"include_usage":true}',
  '{ }': '{"include_usage":true }',
  '{"a":{"include_usage":false} }': '{"include_usage":true,"a":{"include_usage":false} }',
  '{"include_usage":false, "a":1.0}': '{"include_usage":true, "a":1.0}',
  '{"include_usage":true}': '{"include_usage":true}',
};

function requests(): fc.Arbitrary<Member[]> {
  const space = fc.constantFrom('', ' ', '\n\t');
  const colon = fc.constantFrom(':', ' : ');
  const member = (key: string, value: fc.Arbitrary<string>) =>
    fc.tuple(fc.constant(key), colon, value, space);
  const maybe = (key: string, ...values: string[]) =>
    fc.array(member(key, fc.constantFrom(...values)), { maxLength: 1 });
  const others = fc.array(member('x', fc.json()), { maxLength: 3 });
  return fc
    .tuple(
      member('model', fc.constantFrom('"m"', String.raw`"\u006d"`, '"é😀"')),
      member('messages', fc.constantFrom('[]', '[ {"model":"m","stream_options":null} ]')),
      maybe('stream', 'true', 'true', 'false', 'null'),
      maybe('stream_options', ...Object.keys(STREAM_OPTIONS)),
      maybe('max_tokens', '1', '50', '10.0', 'null'),
      maybe('max_completion_tokens', '1', '5e1', '10', 'null'),
      others,
    )
    .chain(([model, messages, ...rest]) => {
      const members = [model, messages, ...rest.flat()];
      return fc.shuffledSubarray(members, { minLength: members.length });
    });
}

function edits(): fc.Arbitrary<RequestEdits> {
  return fc.record(
    {
      model: fc.constantFrom('x', "$& $'", '"\\'),
      includeUsage: fc.constant(true),
      outputLimit: fc.record({
        field: fc.constantFrom('max_tokens', 'max_completion_tokens'),
        tokens: fc.integer({ min: 1, max: 60 }),
        inserts: fc.boolean(),
        moves: fc.boolean(),
      }),
    },
    { requiredKeys: [] },
  );
}

function textOf(members: readonly Member[]): string {
  return `{${members.map(([key, colon, value, space]) => `"${key}"${colon}${value}${space}`).join(',')}}`;
}

/** The members after the edits, each value and each added member written where it belongs. */
function rewritten(members: readonly Member[], { model, includeUsage, outputLimit }: RequestEdits): Member[] {
  const values = new Map(members.map(([key, , value]) => [key, value]));
  const usage = includeUsage === true && values.get('stream') === 'true';
  const limits = limitsAfter(outputLimit, (key) => Number(values.get(key)) || undefined, [...values.keys()]);

  let added = '';
  if (usage && !values.has('stream_options')) added += ',"stream_options":{"include_usage":true}';
  if (limits.added !== undefined) added += `,"${limits.added}":${limits.values[limits.added]}`;

  return members.map(([key, colon, value, space]) => {
    const name = limits.renamed === key && outputLimit ? outputLimit.field : key;
    let after = value;
    if (key === 'model') after = (model === undefined ? value : JSON.stringify(model)) + added;
    if (key === 'stream_options' && usage) after = STREAM_OPTIONS[value] ?? value;
    if (limits.values[name] !== undefined) after = String(limits.values[name]);
    return [name, colon, after, space];
  });
}

/** The limits that an edit changes, which one it adds, and which one gets another name. */
function limitsAfter(
  edit: RequestEdits['outputLimit'],
  asked: (field: string) => number | undefined,
  members: readonly string[],
): { values: Record<string, number | null>; added?: string; renamed?: string } {
  if (!edit) return { values: {} };
  const { field, tokens, inserts, moves } = edit;
  const other = field === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens';
  const others = asked(other);
  if (asked(field) === undefined && (others === undefined ? inserts : moves)) {
    const value = Math.min(tokens, others ?? tokens);
    if (members.includes(field)) return { values: { [field]: value, ...(others && { [other]: null }) } };
    return { values: { [field]: value }, ...(others ? { renamed: other } : { added: field }) };
  }
  const high = [field, other].filter((name) => (asked(name) ?? 0) > tokens);
  return { values: Object.fromEntries(high.map((name) => [name, tokens])) };
}

/** What the edits mean for the parsed request. */
function edited(request: Meaning, { model, includeUsage, outputLimit }: RequestEdits): Meaning {
  const result = { ...request };
  if (model !== undefined) result['model'] = model;
  const options = request['stream_options'] ?? {};
  if (includeUsage && request['stream'] === true && typeof options === 'object') {
    result['stream_options'] = { ...options, include_usage: true };
  }
  const asked = (key: string) => (typeof request[key] === 'number' ? request[key] : undefined);
  const limits = limitsAfter(outputLimit, asked, Object.keys(request));
  if (limits.renamed !== undefined) delete result[limits.renamed];
  return { ...result, ...limits.values };
}
