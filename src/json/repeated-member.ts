import { JsonScanner } from './scanner.ts';
import { tokenText } from './token.ts';

/** A name that an object has twice. */
export interface RepeatedMember {
  readonly name: string;
  /** Offset of the second one in the document, in bytes. */
  readonly at: number;
}

/**
 * The first name that an object of a document has twice: parsers differ on which of the two values counts. Undefined if
 * there is none; names of more than 1,024 bytes are not compared.
 *
 * @returns `invalid` if it isn't JSON in UTF-8, or is nested deeper than 1,000
 */
export function repeatedMember(bytes: Uint8Array): RepeatedMember | 'invalid' | undefined {
  const seen = new Set<string>();
  let containers = 0;
  let repeated: RepeatedMember | undefined;
  const scanner = new JsonScanner('', {
    key: (within, token) => {
      const name = tokenText(token);
      if (name === undefined) return;
      const place = `${within} ${name}`;
      if (seen.has(place)) repeated ??= { name, at: token.start };
      seen.add(place);
    },
    value: () => String((containers += 1)),
    close: () => {},
  });
  return scanner.write(bytes) && scanner.end() ? repeated : 'invalid';
}
