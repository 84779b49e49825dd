import { describe, expect, it } from 'vitest';

import { JsonScanner } from '../../../src/json/scanner.ts';
import type { JsonToken } from '../../../src/json/token.ts';

interface Seen {
  readonly start: number;
  readonly end: number;
  readonly ascii: number;
  readonly nonAscii: number;
  readonly escaped: boolean;
}

/** All strings of a document, or where it is wrong, as a scanner sees it that gets so many bytes at a time. */
function stringsOf(document: Buffer, step: number): readonly Seen[] | string {
  const seen: Seen[] = [];
  const note = ({ start, end, asciiChars, nonAsciiChars, escaped }: JsonToken): void => {
    seen.push({ start, end, ascii: asciiChars, nonAscii: nonAsciiChars, escaped });
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
});
