import { hexDigit, type JsonToken } from './token.ts';

/** A known name that a key matches. */
export interface KeyMatch<Role> {
  readonly name: string;
  readonly role: Role;
  /** Whether the key equals the name, rather than a variant of it in case. */
  readonly exact: boolean;
}

interface Entry<Role> {
  readonly chars: readonly number[];
  readonly itself: KeyMatch<Role>;
  readonly variant: KeyMatch<Role>;
}

const MAX_NAME_LENGTH = 64;
const LONG_S = 0x17f;
const KELVIN_SIGN = 0x212a;

/** The current key, as UTF-16 units. Shared by all matchers: it is only used synchronously. */
const decoded = new Uint16Array(MAX_NAME_LENGTH);

/**
 * Recognises a few names among the keys of a document, without making strings of the others.
 *
 * Escapes are decoded, and case is folded as Go's encoding/json folds it, so that every key is found that another parser
 * could read as one of the names: `MODEL`, `mod\u0065l`, `ſtream` with a long s, the Kelvin sign for a k.
 */
export class KeyMatcher<Role> {
  readonly #byLength: Entry<Role>[][] = [];

  constructor(roles: Readonly<Record<string, Role>>) {
    for (const [name, role] of Object.entries(roles)) {
      const chars = Array.from(name, (char) => char.charCodeAt(0));
      if (chars.length > MAX_NAME_LENGTH) throw new RangeError(`${name} is too long for a KeyMatcher`);
      (this.#byLength[chars.length] ??= []).push({
        chars,
        itself: { name, role, exact: true },
        variant: { name, role, exact: false },
      });
    }
  }

  find(key: JsonToken): KeyMatch<Role> | undefined {
    const length = key.asciiChars + key.nonAsciiChars;
    const candidates = this.#byLength[length];
    if (!candidates) return undefined;
    const isPlain = key.to - key.from === length;
    if (!isPlain && !decode(key)) return undefined;
    const units = isPlain ? key.bytes : decoded;
    const from = isPlain ? key.from : 0;
    for (const { chars, itself, variant } of candidates) {
      let exact = true;
      let at = 0;
      for (; at < length; at++) {
        const char = units[from + at] ?? 0;
        const wanted = chars[at] ?? 0;
        if (char === wanted) continue;
        if (fold(char) !== fold(wanted)) break;
        exact = false;
      }
      if (at === length) return exact ? itself : variant;
    }
    return undefined;
  }
}

/** Fills `decoded` with a key of at most 64 characters; false for a key that can't be a name. */
function decode(key: JsonToken): boolean {
  const { bytes, to } = key;
  let length = 0;
  for (let at = key.from; at < to; length++) {
    const byte = bytes[at++] ?? 0;
    if (byte === 0x5c) {
      // No name contains a character with another escape.
      if (bytes[at++] !== 0x75) return false;
      let char = 0;
      for (let digits = 0; digits < 4; digits++) char = char * 16 + hexDigit(bytes[at++] ?? 0);
      decoded[length] = char;
    } else if (byte < 0x80) {
      decoded[length] = byte;
    } else if (byte === 0xc5 && bytes[at] === 0xbf) {
      decoded[length] = LONG_S;
      at += 1;
    } else if (byte === 0xe2 && bytes[at] === 0x84 && bytes[at + 1] === 0xaa) {
      decoded[length] = KELVIN_SIGN;
      at += 2;
    } else {
      return false;
    }
  }
  return true;
}

/** Folds to lower case. Only two characters outside ASCII fold to an ASCII letter. */
function fold(char: number): number {
  if (char >= 0x41 && char <= 0x5a) return char | 0x20;
  if (char === LONG_S) return 0x73;
  return char === KELVIN_SIGN ? 0x6b : char;
}
