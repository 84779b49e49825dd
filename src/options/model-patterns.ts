/** IDs of models, in which a `*` stands for any number of any characters: `openai/*`. */
export class ModelPatterns {
  readonly patterns: readonly string[];
  /** The same patterns have the same name. */
  readonly name: string;
  readonly #parts: readonly (readonly string[])[];

  constructor(patterns: readonly string[]) {
    this.patterns = [...new Set(patterns)].sort();
    this.name = this.patterns.join(' ');
    this.#parts = this.patterns.map((pattern) => pattern.split('*'));
  }

  allows(id: string): boolean {
    return this.#parts.some((pieces) => matches(id, pieces));
  }
}

/** @param option - where the patterns stand, for the message */
export function parseModelPatterns(given: unknown, option: string): ModelPatterns {
  const isList = Array.isArray(given) && given.length > 0 && given.length <= MAX_PATTERNS;
  if (!isList || !given.every((each) => typeof each === 'string' && PATTERN.test(each))) {
    throw new TypeError(
      `${option} must be 1 to ${MAX_PATTERNS} model IDs of 1 to 256 characters without blanks, in which * stands for any characters, got ${JSON.stringify(given)}`,
    );
  }
  return new ModelPatterns(given);
}

const MAX_PATTERNS = 100;
// eslint-disable-next-line no-control-regex -- as of a model's ID
const PATTERN = /^[^\u0000-\u0020\u007f]{1,256}$/;

/** Without backtracking: each piece between two asterisks is taken where it is found first. */
function matches(id: string, [first = '', ...rest]: readonly string[]): boolean {
  const last = rest.pop();
  if (last === undefined) return id === first;
  if (!id.startsWith(first)) return false;
  let at = first.length;
  for (const piece of rest) {
    const found = id.indexOf(piece, at);
    if (found === -1) return false;
    at = found + piece.length;
  }
  return id.length - last.length >= at && id.endsWith(last);
}
