/** Most bytes that a reader takes at once; the scanner cuts longer chunks. */
export const MAX_LOAD_BYTES = 65_536;

/** Skips the text of long strings in a chunk that is valid UTF-8. All scanners share one. */
export interface TextReader {
  /** Whose chunk is loaded. */
  owner: object | undefined;
  /** What was skipped last. An escape is one character. */
  readonly asciiChars: number;
  readonly nonAsciiChars: number;
  readonly escapes: number;

  /**
   * Takes another chunk, of whole characters and at most `MAX_LOAD_BYTES`.
   *
   * @returns the end of the range in which `skip` may be called
   */
  load(bytes: Uint8Array, from: number, to: number): number;
  /**
   * Skips text from the beginning of a character on.
   *
   * @returns the index of the first byte that wasn't skipped: never one inside a character
   */
  skip(index: number): number;
  /** Keeps nothing of the chunk. */
  release(): void;
}
