import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { JsonScanner } from '../../../src/json/scanner.ts';
import { SimdText } from '../../../src/json/simd-text.ts';
import { SkippableText } from '../../../src/json/skippable-text.ts';
import { JsonStringScanner } from '../../../src/json/string-scanner.ts';
import { type JsonToken, tokenHead } from '../../../src/json/token.ts';
import { WordText } from '../../../src/json/word-text.ts';
import { runs } from '../../helpers/runs.ts';

interface Seen {
  readonly start: number;
  readonly end: number;
  readonly ascii: number;
  readonly nonAscii: number;
  readonly escaped: boolean;
  readonly head: string;
}

/** All strings of a document, or where it is wrong, as a scanner sees it that gets so many bytes at a time. */
function stringsOf(document: Buffer, step: number): readonly Seen[] | string {
  const seen: Seen[] = [];
  const note = (token: JsonToken): void => {
    const { start, end, asciiChars, nonAsciiChars, escaped } = token;
    const head = tokenHead(token, 1000);
    seen.push({ start, end, ascii: asciiChars, nonAscii: nonAsciiChars, escaped, head });
  };
  const scanner = new JsonScanner('document', {
    key: (_within, token) => {
      note(token);
    },
    value: (_within, kind, token) => {
      if (kind === 'string') note(token);
      return 'document';
    },
    close: () => {},
  });
  for (let at = 0; at < document.length; at += step) {
    if (!scanner.write(document.subarray(at, at + step))) return `${scanner.fault} at ${scanner.faultAt}`;
  }
  return scanner.end() ? seen : `${scanner.fault} at ${scanner.faultAt}`;
}

const LONG =
  'Où est « la gare » de 東京, \\"Zürich\\" \\u00e9 🚲? It is plain for a while, and goes on.\\n'.repeat(150);

describe('the text of a long string', () => {
  it('is counted alike, wherever its chunks are cut and wherever in memory it lies', () => {
    const document = Buffer.from(`[${' '.repeat(3)}"${LONG}","${LONG.slice(1)}",{"key":"${LONG.slice(2)}"}]`);
    const expected = stringsOf(document, 1);
    expect(expected).toHaveLength(4);
    for (const step of [1024, 1025, 1026, 1027, 5000, 7001, document.length]) {
      expect(stringsOf(document, step), `${step} bytes at a time`).toEqual(expected);
    }
    for (let offset = 1; offset < 8; offset++) {
      const moved = Buffer.concat([Buffer.alloc(offset), document]).subarray(offset);
      expect(stringsOf(moved, moved.length), `${offset} bytes into its memory`).toEqual(expected);
    }
  });

  it('has the fault that single bytes have, at its place', () => {
    const faults = [
      [0x0a],
      [0x00],
      [0x1f],
      [0xff],
      [0xc3],
      [0xe6, 0x9d],
      [0x80],
      [0xed, 0xa0, 0x80],
      [0x22, 0x78],
      [0x5c, 0x78],
    ];
    for (const fault of faults) {
      for (let at = 5000; at < 5009; at++) {
        const text = Buffer.from(`["${'plain ÄÖ text '.repeat(700)}"]`);
        const cut = Buffer.concat([text.subarray(0, at), Buffer.from(fault), text.subarray(at)]);
        const expected = stringsOf(cut, 1);
        expect(stringsOf(cut, cut.length), `${fault.join(' ')} at ${at}`).toEqual(expected);
      }
    }
  });

  it('is read in parts where a chunk is longer than any of a socket', () => {
    const document = Buffer.from(`["${LONG.repeat(20)}","${LONG.slice(1).repeat(20)}"]`);
    expect(document.length).toBeGreaterThan(4 * 65_536);
    const expected = stringsOf(document, 1);
    expect(expected).toHaveLength(2);
    expect(stringsOf(document, document.length)).toEqual(expected);
    const cut = Buffer.from(document);
    cut[200_000] = 0;
    expect(stringsOf(cut, cut.length)).toBe('byte at 200000');
  });

  it('may have anything on the edge of a part', () => {
    for (const piece of [
      'é',
      '東',
      '🚲',
      '\\n',
      '\\\\',
      '\\u00e9',
      '","',
      '","key',
      '",{"key":1234.5e6},"',
    ]) {
      for (let before = 65_526; before < 65_540; before++) {
        const document = Buffer.from(`["${'x'.repeat(before - 2)}${piece}${' and more'.repeat(300)}"]`);
        const expected = stringsOf(document, 1000);
        expect(expected, `${piece} at ${before}`).toBeInstanceOf(Array);
        expect(stringsOf(document, document.length), `${piece} at ${before}`).toEqual(expected);
      }
    }
  });

  it('is counted alike while another document is scanned in between', () => {
    const document = Buffer.from(`{"first":"${LONG}","second":"${LONG.slice(1)}"}`);
    const other = Buffer.from(`["${'other text '.repeat(1000)}"]`);
    const seen: number[] = [];
    const scanner = new JsonScanner('document', {
      key: () => {
        expect(stringsOf(other, other.length)).toHaveLength(1);
      },
      value: (_within, kind, { asciiChars }) => {
        if (kind === 'string') seen.push(asciiChars);
        return 'document';
      },
      close: () => {},
    });
    expect(scanner.write(document)).toBe(true);
    const expected = stringsOf(document, 1);
    expect(typeof expected === 'string' ? expected : expected.map(({ ascii }) => ascii)).toEqual([
      'first'.length,
      seen[0],
      'second'.length,
      seen[1],
    ]);
  });
});

/** What a string may be made of, and what ends it or must not be in it. */
const fragment = fc.oneof(
  { weight: 8, arbitrary: fc.string({ unit: fc.constantFrom(...'abc xyz.,:{}[]'), maxLength: 50 }) },
  {
    weight: 4,
    arbitrary: fc.constantFrom('é', '«', '東', '🚲', '\u07ff', '\u0800', '\uffff', '\u{10ffff}', '\u007f'),
  },
  {
    weight: 4,
    arbitrary: fc.constantFrom('\\n', '\\"', '\\\\', '\\/', '\\u00e9', '\\uD83D\\uDEB2', '\\t\\t'),
  },
);
const ending = fc.constantFrom('"', '\n', '\0', '\\x', '\\u12g4', '\\', '"\\n"', '\\n"\\');

describe.each([
  ['words', () => new WordText()],
  ['blocks', () => SimdText.create()],
] as const)('a string that is read in %s', (_name, create) => {
  const reader = create();

  /** How far it goes, and what is in it, as the scanner sees it that gets so many bytes at a time. */
  const scan = (bytes: Buffer, step: number): unknown => {
    const scanner = new JsonStringScanner(new SkippableText(reader));
    scanner.begin();
    for (let at = 0; at < bytes.length; at += step) {
      const to = Math.min(at + step, bytes.length);
      scanner.open(bytes, at, to);
      const end = scanner.scan(bytes, at, to);
      if (end < to || to === bytes.length) {
        const { asciiChars, nonAsciiChars, escaped, unfinished } = scanner;
        return { end, asciiChars, nonAsciiChars, escaped, unfinished };
      }
    }
    return undefined;
  };

  it('is what its bytes are one at a time', () => {
    expect(reader).toBeDefined();
    const sample = fc.record({
      parts: fc.array(fragment, { minLength: 10, maxLength: 60 }),
      times: fc.integer({ min: 1, max: 8 }),
      rest: fc.tuple(ending, fc.string({ maxLength: 30 })),
      before: fc.integer({ min: 0, max: 9 }),
    });
    fc.assert(
      fc.property(sample, ({ parts, times, rest, before }) => {
        const text = `${parts.join('').repeat(times)}${rest.join('')}`;
        const bytes = Buffer.from(`${' '.repeat(before)}${text}`).subarray(before);
        const expected = scan(bytes, 1);
        for (const step of [1024, 1031, bytes.length]) expect(scan(bytes, step)).toEqual(expected);
      }),
      { numRuns: runs(3000) },
    );
  });

  it('ends at the first byte that is wrong', () => {
    for (const wrong of [
      [0xff],
      [0xc3],
      [0xe6, 0x9d],
      [0x80],
      [0xed, 0xa0, 0x80],
      [0xf4, 0x90, 0x80, 0x80],
    ]) {
      for (let at = 1500; at < 1534; at++) {
        const text = Buffer.from('plain ÄÖ text 東\\n'.repeat(120));
        const bytes = Buffer.concat([text.subarray(0, at), Buffer.from(wrong), text.subarray(at)]);
        expect(scan(bytes, bytes.length), `${wrong.join(' ')} at ${at}`).toEqual(scan(bytes, 1));
      }
    }
  });
});

it('leaves nothing of a text in the memory of WebAssembly', () => {
  const reader = SimdText.create();
  const scanner = new JsonStringScanner(new SkippableText(reader));
  const bytes = Buffer.from('a secret '.repeat(1000));
  scanner.begin();
  scanner.open(bytes, 0, bytes.length);
  expect(Buffer.from(reader?.text ?? []).subarray(0, bytes.length)).toEqual(bytes);
  expect(scanner.scan(bytes, 0, bytes.length)).toBe(bytes.length);
  scanner.close();
  expect(reader?.text.every((byte) => byte === 0)).toBe(true);
});
