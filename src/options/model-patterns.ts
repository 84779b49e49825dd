/** Patterns of model IDs, in which `*` matches any number of any characters: `openai/*`. */
export class ModelPatterns {
  readonly patterns: readonly string[];
  /** Equal patterns have equal names. */
  readonly name: string;
  /** What a model must match too. */
  readonly within: ModelPatterns | undefined;
  readonly #parts: readonly (readonly string[])[];

  constructor(patterns: readonly string[], within?: ModelPatterns) {
    this.patterns = [...new Set(patterns)].sort();
    this.within = within;
    this.name = this.patterns.join(' ') + (within ? ` & ${within.name}` : '');
    this.#parts = this.patterns.map((pattern) => pattern.split('*'));
  }

  allows(id: string): boolean {
    return this.allowsModel([id]);
  }

  /** @param names - the model's ID and aliases; what is within may allow another of them */
  allowsModel(names: readonly string[]): boolean {
    const isMatch = names.some((name) => this.#parts.some((parts) => matches(name, parts)));
    return isMatch && (this.within?.allowsModel(names) ?? true);
  }
}

/** What both allow; undefined if neither limits anything. */
export function bothPatterns(
  one: ModelPatterns | undefined,
  other: ModelPatterns | undefined,
): ModelPatterns | undefined {
  return one && other ? new ModelPatterns(one.patterns, other) : (one ?? other);
}

/** @param option - path of the option, for the message */
export function parseModelPatterns(given: unknown, option: string): ModelPatterns {
  const isList = Array.isArray(given) && given.length > 0 && given.length <= MAX_MODEL_PATTERNS;
  if (!isList || !given.every((each) => typeof each === 'string' && MODEL_PATTERN.test(each))) {
    throw new TypeError(
      `${option} must be 1 to ${MAX_MODEL_PATTERNS} model IDs of 1 to 256 characters without blanks, in which * matches any characters, got ${JSON.stringify(given)}`,
    );
  }
  return new ModelPatterns(given);
}

export const MAX_MODEL_PATTERNS = 100;
// eslint-disable-next-line no-control-regex -- as in a model's ID
export const MODEL_PATTERN: RegExp = /^[^\u0000-\u0020\u007f]{1,256}$/;

/** Without backtracking: each part between two asterisks is matched at its first occurrence. */
function matches(id: string, [first = '', ...rest]: readonly string[]): boolean {
  const last = rest.pop();
  if (last === undefined) return id === first;
  if (!id.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = id.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return id.length - last.length >= at && id.endsWith(last);
}
