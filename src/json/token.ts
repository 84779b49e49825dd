export type JsonKind = 'object' | 'array' | 'string' | 'number' | 'true' | 'false' | 'null';

/** What a scanner found last. One object, overwritten by what is found next: read it at once. */
export interface JsonToken {
  /** Offset in the document of its first byte; of a string's opening quote. */
  readonly start: number;
  /** Offset of the byte after its last; after a string's closing quote. */
  readonly end: number;
  /** Holds the token without quotes, from `from` to `to`: all of it, or at least its first 1,000 bytes. */
  readonly bytes: Uint8Array;
  readonly from: number;
  readonly to: number;
  /** Whether a string is written with a backslash somewhere. */
  readonly escaped: boolean;
  /** Characters of a string; an escape is one. */
  readonly asciiChars: number;
  readonly nonAsciiChars: number;
  /** Bytes of white space between tokens, from the document's beginning to here. */
  readonly spaces: number;
}

/** Longest token, quotes included, that is kept whole where it spans chunks. */
export const MAX_TEXT_LENGTH = 1024;

/** What a string says, or a number's digits; undefined where it is longer than 1,024 bytes. */
export function tokenText(token: JsonToken): string | undefined {
  if (token.end - token.start > MAX_TEXT_LENGTH) return undefined;
  const text = tokenHead(token, MAX_TEXT_LENGTH);
  return token.escaped ? String(JSON.parse(`"${text}"`)) : text;
}

/** The first bytes of a token as they are written, escapes and all. */
export function tokenHead(token: JsonToken, length: number): string {
  const { bytes, from, to } = token;
  return Buffer.from(bytes.buffer, bytes.byteOffset + from, Math.min(length, to - from)).toString();
}

/** -1 for what is no hex digit. */
export function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}
