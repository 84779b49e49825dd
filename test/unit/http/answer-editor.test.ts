import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { AnswerEditor } from '../../../src/http/answer-editor.ts';
import { byteLength } from '../../../src/http/body-chunks.ts';
import { type AnswerMemberEdits, MemberPlan } from '../../../src/http/member-plan.ts';
import { runs } from '../../helpers/runs.ts';

const NAMES = ['provider', 'a', 'model', 'usage', 'cost', 'choices', 'message', 'meta', 'error', 'é"'];
const EDITS: AnswerMemberEdits = {
  hidden: ['provider', 'usage.cost', 'choices[].meta', 'choices[].message.provider', 'error.meta.provider'],
  renames: true,
  addsCost: true,
  hidesComments: true,
};
const COST = '0.000045';

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

function isObject(value: Json | undefined): value is { readonly [name: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What is to become of an answer, on the parsed whole of it. */
function reference(answer: Json): Json {
  if (!isObject(answer)) return answer;
  const without = (value: Json | undefined, name: string): Json | undefined => {
    if (!isObject(value)) return value;
    return Object.fromEntries(Object.entries(value).filter(([key]) => key !== name));
  };
  const inside = (
    value: Json | undefined,
    name: string,
    edit: (value: Json) => Json | undefined,
  ): Json | undefined => {
    if (!isObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, own]) => [key, key === name ? edit(own) : own]),
    ) as Json;
  };
  let edited = without(answer, 'provider');
  edited = inside(edited, 'model', () => 'ours');
  edited = inside(edited, 'usage', (usage) =>
    isObject(usage) ? { ...(without(usage, 'cost') as object), cost: Number(COST) } : usage,
  );
  edited = inside(edited, 'error', (error) => inside(error, 'meta', (meta) => without(meta, 'provider')));
  return inside(edited, 'choices', (choices) => {
    if (!Array.isArray(choices)) return choices;
    return choices.map((choice: Json) => {
      return inside(without(choice, 'meta'), 'message', (message) => without(message, 'provider'));
    }) as Json;
  }) as Json;
}

function edit(chunks: readonly Buffer[], edits: AnswerMemberEdits = EDITS): string {
  const editor = new AnswerEditor({ plan: new MemberPlan(edits), model: 'ours', cost: () => COST });
  const out = chunks.flatMap((chunk) => editor.write(chunk));
  return Buffer.concat([...out, ...editor.end()]).toString();
}

function everyCut(text: string): (readonly Buffer[])[] {
  const bytes = Buffer.from(text);
  const cuts = Array.from({ length: bytes.length }, (_, at) => [bytes.subarray(0, at), bytes.subarray(at)]);
  return [[bytes], ...cuts, Array.from(bytes, (byte) => Buffer.of(byte))];
}

function expectEdited(text: string, wanted: string, edits = EDITS): void {
  for (const [index, chunks] of everyCut(text).entries()) {
    expect(edit(chunks, edits), `cut ${index} of ${text}`).toBe(wanted);
  }
}

const { answer } = fc.letrec<{ answer: Json; value: Json; object: Json }>((tie) => ({
  answer: fc.oneof({ weight: 9, arbitrary: tie('object') }, tie('value')),
  object: fc
    .uniqueArray(fc.tuple(fc.constantFrom(...NAMES), tie('value')), { selector: ([name]) => name })
    .map((members) => Object.fromEntries(members) as Json),
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<Json>(null, true, 12.5, 'x', '{"provider":1}', '\\"', 'ü'),
    tie('object'),
    fc.array(tie('value'), { maxLength: 3 }),
  ),
}));

describe('an edited answer', () => {
  it('is what edits of the parsed JSON make of it, wherever it is cut, and else the same bytes', () => {
    fc.assert(
      fc.property(answer, fc.array(fc.nat(600), { maxLength: 4 }), (whole, cuts) => {
        const wanted = JSON.stringify(reference(whole)).replaceAll(String(Number(COST)), COST);
        expect(edit(pieces(JSON.stringify(whole), cuts))).toBe(wanted);
        expect(edit(pieces(`data: ${JSON.stringify(whole)}\n\n: x\n\ndata: [DONE]\n\n`, cuts))).toBe(
          `data: ${wanted}\n\n:\n\ndata: [DONE]\n\n`,
        );
      }),
      { numRuns: runs(3000) },
    );
  });

  it('means the same where it has blanks and line ends', () => {
    fc.assert(
      fc.property(answer, fc.array(fc.nat(900), { maxLength: 4 }), (whole, cuts) => {
        const text = JSON.stringify(whole, undefined, '  ');
        const wanted = reference(whole);
        expect(JSON.parse(edit(pieces(text, cuts)))).toEqual(wanted);
        const event = `data: ${text.replaceAll('\n', '\ndata: ')}\n\n`;
        const data = edit(pieces(event, cuts)).replaceAll(/^data: /gm, '');
        expect(JSON.parse(data)).toEqual(wanted);
      }),
      { numRuns: runs(1000) },
    );
  });

  it('gets a cost behind a number that ends its line, at every cut', () => {
    const event = 'data: {"usage":{"a":12.5\ndata: }}\n\n';
    for (const chunks of everyCut(event)) {
      expect(edit(chunks)).toBe(`data: {"usage":{"a":12.5\ndata: ,"cost":${COST}}}\n\n`);
    }
  });

  it.each([
    ['the only member', '{"provider":"x"}', '{}'],
    ['the first', '{ "provider" : "x" , "a":1}', '{"a":1}'],
    ['the first two', '{"provider":{"a":[1,{"b":2}]},"provider":[],"a":1}', '{"a":1}'],
    ['the last', '{"a":1 , "provider" : null }', '{"a":1 }'],
    ['one between', '{"a":1, "provider":"x", "b":2}', '{"a":1, "b":2}'],
    ['a key with an escape', String.raw`{"a":1,"pro\u0076ider":"x"}`, '{"a":1}'],
    [
      'none in a text',
      '{"a":"\\"provider\\":\\"x\\"","b":{"provider":1}}',
      '{"a":"\\"provider\\":\\"x\\"","b":{"provider":1}}',
    ],
    ['the name', '{"model" : {"x":[1]}, "a":1}', '{"model":"ours", "a":1}'],
    ['a cost', '{"usage":{"cost":1,"a":2 } ,"b":1}', `{"usage":{"a":2 ,"cost":${COST}} ,"b":1}`],
    ['no key in another case', '{"Provider":1,"PROVIDER":2}', '{"Provider":1,"PROVIDER":2}'],
    [
      'a cost in the last usage of two',
      '{"usage":{"a":1},"usage":{"a":2}}',
      `{"usage":{"a":1},"usage":{"a":2,"cost":${COST}}}`,
    ],
    ['a cost in empty usage', '{"usage":{ },"b":1}', `{"usage":{ "cost":${COST}},"b":1}`],
    ['no cost in usage of null', '{"usage":null}', '{"usage":null}'],
    [
      'members of choices',
      '{"choices":[{"meta":1},{"a":1,"message":{"provider":1}}]}',
      '{"choices":[{},{"a":1,"message":{}}]}',
    ],
    ['glued documents', '{"provider":1}{"a":1,"provider":2}', '{}{"a":1}'],
    ['behind a mark and blanks', '\uFEFF \n{"provider":1}', '\uFEFF \n{}'],
  ])('loses or gets %s, at every cut', (_what, text, wanted) => {
    expectEdited(text, wanted);
    expectEdited(
      `data:${text.replaceAll(/\uFEFF|\n/g, '')}\n\n`,
      `data:${wanted.replaceAll(/\uFEFF|\n/g, '')}\n\n`,
    );
  });

  it.each([
    ['LF', '\n'],
    ['CRLF', '\r\n'],
    ['CR', '\r'],
  ])('is edited in each event of a stream, at every cut: %s', (_name, lineEnd) => {
    const events = (provider: string, comment: string, cost: string): string =>
      [
        `:${comment}\n\n`,
        `event: x\nid: 7\ndata: {"id":"1"${provider},"choices":[]}\n\n`,
        `data: {"id":"1"${provider}}\n`,
        `data: {"usage":{"a":1${cost}}}\n\n`,
        'data: [DONE]\n\n',
      ]
        .join('')
        .replaceAll('\n', lineEnd);
    expectEdited(events(',"provider":"Acme"', ' ACME PROCESSING', ''), events('', '', `,"cost":${COST}`));
  });

  it('stays as it is where it is no JSON, and the next event is edited', () => {
    expectEdited(
      'data: oops\n\ndata: {"a":1,]\n\ndata: {"a":1,"provider":1}\n\n',
      'data: oops\n\ndata: {"a":1,]\n\ndata: {"a":1}\n\n',
    );
  });

  it('shows nothing of a member whose event is cut', () => {
    for (const chunks of everyCut('data: {"a":1,"provider":"secret\n\ndata: {"a":2}\n\n')) {
      expect(edit(chunks)).not.toContain('secret');
      expect(edit(chunks)).toContain('\n\ndata: {"a":2}\n\n');
    }
  });

  it('shows nothing of a member that is no JSON', () => {
    for (const chunks of everyCut('data: {"a":1,"provider":"secret\u0001and more"}\n\ndata: {"a":2}\n\n')) {
      expect(edit(chunks)).not.toContain('secret');
      expect(edit(chunks)).toContain('\n\ndata: {"a":2}\n\n');
    }
  });

  it('passes at once what is no JSON', () => {
    const editor = new AnswerEditor({ plan: new MemberPlan(EDITS), model: 'ours', cost: () => COST });
    editor.write(Buffer.from('{"a":1,]'));
    const chunk = Buffer.from('and so on');
    expect(editor.write(chunk)[0]).toBe(chunk);
  });

  it('is edited in all of many events that no blank line separates', () => {
    const event = (more: string): string => `data: {"a":1${more}}\n`;
    expect(edit([Buffer.from(event(',"provider":1').repeat(300))])).toBe(event('').repeat(300));
  });

  it('is edited in all of many events of two documents each', () => {
    const event = (more: string): string => `data: {"a":1${more}}{"a":2${more}}\n\n`;
    expect(edit([Buffer.from(event(',"provider":1').repeat(300))])).toBe(event('').repeat(300));
  });

  it('leaves a comment where it stands inside of an event that is not decided', () => {
    expectEdited('data: {"a":1,\n: x\ndata: "provider":2}\n\n: y\n\n', 'data: {"a":1}\n\n:\n\n');
  });

  it('loses a member of any length, of which nothing is kept', () => {
    const editor = new AnswerEditor({ plan: new MemberPlan(EDITS), model: 'ours', cost: () => COST });
    const megabyte = Buffer.alloc(1024 * 1024, 'x');
    const first = editor.write(Buffer.from('{"a":1,"provider":"'));
    const passed = Array.from({ length: 20 }, () => editor.write(megabyte)).flat();
    expect(passed).toEqual([]);
    const last = editor.write(Buffer.from('","b":2}'));
    expect(Buffer.concat([...first, ...last, ...editor.end()]).toString()).toBe('{"a":1,"b":2}');
  });

  it.each([
    ['blanks', '{"usage":{"a":1', ' ', ',"cost":9}}'],
    ['blanks after a comma', '{"usage":{"a":1,', ' ', '"cost":9}}'],
    ['blanks in an object without members', '{"usage":{', '\n', '"cost":9}}'],
    ['a key', '{"usage":{"a":1,"', 'k', '":1,"cost":9}}'],
    ['a comment inside of an event', 'data: {"usage":{"a":1,\n:', 'x', '\ndata: "cost":9}}\n\n'],
    ['a comment in a member that is hidden', 'data: {"a":[1],"provider":\n:', 'x', '\ndata: 9}\n\n'],
  ])('holds no more than 64 KiB back for %s of any length', (_what, begin, byte, end) => {
    const plan = new MemberPlan({ ...EDITS, hidesComments: false });
    const editor = new AnswerEditor({ plan, model: 'ours', cost: () => COST });
    const filler = Array.from({ length: 200 }, () => Buffer.alloc(1000, byte));
    const passed: Buffer[] = [];
    let given = 0;
    for (const chunk of [Buffer.from(begin), ...filler]) {
      given += chunk.length;
      passed.push(...editor.write(chunk));
      expect(given - byteLength(passed)).toBeLessThanOrEqual(65_536 + 20);
    }
    passed.push(...editor.write(Buffer.from(end)), ...editor.end());
    expect(Buffer.concat(passed).toString().replaceAll(byte.repeat(1000), '')).toContain(end.slice(-5));
    // The next event is edited again.
    if (begin.startsWith('data'))
      expect(String(editor.write(Buffer.from('data: {"provider":1}\n\n'))[0])).toBe('data: {}\n\n');
  });

  it('passes a text of any length as it comes, in the buffers that it came in', () => {
    const editor = new AnswerEditor({ plan: new MemberPlan(EDITS), model: 'ours', cost: () => COST });
    editor.write(Buffer.from('data: {"provider":"x","a":"'));
    const chunk = Buffer.alloc(200_000, 'x');
    expect(editor.write(chunk)[0]).toBe(chunk);
    const event = Buffer.from('data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n');
    editor.write(Buffer.from('"}\n\n'));
    expect(editor.write(event)[0]).toBe(event);
  });

  it('tells no cost where more than 1 MiB comes between usage and the end, and still hides theirs', () => {
    const text = `"${'x'.repeat(1024 * 1024)}"`;
    const bytes = Buffer.from(`{"usage":{"a":1,"cost":9},"b":${text}}`);
    const chunks = [bytes.subarray(0, 500_000), bytes.subarray(500_000, 900_000), bytes.subarray(900_000)];
    expect(edit(chunks)).toBe(`{"usage":{"a":1},"b":${text}}`);
  });
});

function pieces(text: string, cuts: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text);
  const at = [0, ...cuts.map((cut) => Math.min(cut, bytes.length)).sort((a, b) => a - b), bytes.length];
  return at.slice(1).map((to, index) => bytes.subarray(at[index], to));
}
