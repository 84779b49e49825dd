export type JsonKind = 'object' | 'array' | 'string' | 'number' | 'true' | 'false' | 'null';

/** The scanner's current token. One object, overwritten by the next token: read it at once. */
export interface JsonToken {
  /** Offset of its first byte in the document; for a string, of the opening quote. */
  readonly start: number;
  /** Offset after its last byte; for a string, after the closing quote. */
  readonly end: number;
  /** Contains the token without quotes, from `from` to `to`: all of it, or at least its first 1,000 bytes. */
  readonly bytes: Uint8Array;
  readonly from: number;
  readonly to: number;
  /** Whether a string contains a backslash. */
  readonly escaped: boolean;
  /** Characters of a string; an escape counts as one. */
  readonly asciiChars: number;
  readonly nonAsciiChars: number;
  /** Bytes of white space between tokens, from the beginning of the document to this token. */
  readonly spaces: number;
}

/** Longest token, with quotes, that is kept whole if it spans chunks. */
export const MAX_TEXT_LENGTH = 1024;

/** The text of a string or number; undefined if it is longer than 1,024 bytes. */
export function tokenText(token: JsonToken): string | undefined {
  if (token.end - token.start > MAX_TEXT_LENGTH) return undefined;
  const text = tokenHead(token, MAX_TEXT_LENGTH);
  return token.escaped ? String(JSON.parse(`"${text}"`)) : text;
}

/** The first bytes of a token as written, with escapes. */
export function tokenHead(token: JsonToken, length: number): string {
  const { bytes, from, to } = token;
  // Without another object for each text, where the bytes are a Buffer already.
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return buffer.toString('utf8', from, Math.min(from + length, to));
}

/** The value of a hex digit; -1 for any other byte. */
export function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}
