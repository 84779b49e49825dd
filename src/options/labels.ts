import { optionError } from './option-checks.ts';

/** What a target says of itself: a word or a boolean. */
export type LabelValue = string | boolean;

/**
 * Where a target is, and what happens to data there: `{ region: 'eu', zdr: true, training: false, quantization: 'fp8' }`.
 *
 * At most 16, with names of 1 to 32 lowercase letters, digits and `_` that begin with a letter, and words of 1 to 64 visible
 * characters. `zdr` (nothing is retained) and `training` (data trains models) are booleans, `quantization` is a word.
 */
export interface Labels {
  readonly region?: string;
  readonly zdr?: boolean;
  readonly training?: boolean;
  readonly quantization?: string;
  readonly [name: string]: LabelValue | undefined;
}

/** Labels that a target must have: a value, or a list of which it must have one. A target without the label doesn't match. */
export type LabelRequirements = Readonly<Record<string, LabelValue | readonly LabelValue[]>>;

/** Who requires labels. */
export type RequiredBy = 'key' | 'account' | 'request';

/** A label that a target must have, and who says so. */
export interface RequiredLabel {
  readonly name: string;
  readonly values: readonly LabelValue[];
  readonly by: RequiredBy;
}

export const MAX_LABELS = 16;
export const LABEL_NAME: RegExp = /^[a-z][a-z0-9_]{0,31}$/;
/** A word, but none that could be taken for a boolean. */
export const LABEL_WORD: RegExp = /^(?!(?:true|false)$)[\u0021-\u007e]{1,64}$/;
export const LABEL_WANTED = 'true, false or a word of 1 to 64 visible characters';

/** Labels that have a meaning for requests, and what they must be. */
const KNOWN: Readonly<Record<string, 'boolean' | 'string'>> = {
  region: 'string',
  zdr: 'boolean',
  training: 'boolean',
  quantization: 'string',
};

/**
 * The labels of a target.
 *
 * @throws {TypeError} naming the invalid label
 */
export function parseLabels(given: unknown, option: string): Labels {
  const labels = labelEntries(given, option).map(
    ([name, value]) => [name, parseValue(name, value, option)] as const,
  );
  return Object.fromEntries(labels);
}

/**
 * What must be required of targets, as it was given.
 *
 * @throws {TypeError} naming the invalid label
 */
export function parseRequirements(given: unknown, option: string): LabelRequirements {
  for (const [name, value] of labelEntries(given, option)) {
    const values: readonly unknown[] = Array.isArray(value) ? value : [value];
    if (values.length === 0 || values.length > MAX_LABELS) {
      throw optionError(`${option}.${name}`, `${LABEL_WANTED}, or a list of 1 to ${MAX_LABELS}`, value);
    }
    for (const each of values) parseValue(name, each, option);
  }
  return Object.fromEntries(Object.entries(Object(given)));
}

/** Whether `parseRequirements` takes it. */
export function areRequirements(given: unknown): given is LabelRequirements {
  try {
    parseRequirements(given, 'require');
    return true;
  } catch {
    return false;
  }
}

/** Requirements as a list, by the names of their labels. */
export function requiredLabels(
  requirements: LabelRequirements | undefined,
  by: RequiredBy,
): readonly RequiredLabel[] {
  return Object.entries(requirements ?? {}).map(([name, value]) => ({
    name,
    values: isList(value) ? value : [value],
    by,
  }));
}

/** What both require; undefined if neither requires anything. */
export function bothRequired(
  one: readonly RequiredLabel[] | undefined,
  other: readonly RequiredLabel[] | undefined,
): readonly RequiredLabel[] | undefined {
  return one && other ? [...one, ...other] : (one ?? other);
}

/** Whether a target with these labels has what is required. Ignores the case of words. */
export function hasLabel(labels: Labels, { name, values }: RequiredLabel): boolean {
  const own = Object.hasOwn(labels, name) ? labels[name] : undefined;
  return own !== undefined && values.some((value) => isSame(own, value));
}

/** Requirements on a line: `region=eu|ch, zdr=true`. */
export function requirementsText(requirements: LabelRequirements): string {
  return requiredLabels(requirements, 'key').map(requiredText).join(', ');
}

/** `region=eu|ch`. */
export function requiredText({ name, values }: Pick<RequiredLabel, 'name' | 'values'>): string {
  return `${name}=${values.join('|')}`;
}

function isSame(one: LabelValue, other: LabelValue): boolean {
  if (typeof one === 'string' && typeof other === 'string') return one.toLowerCase() === other.toLowerCase();
  return one === other;
}

function labelEntries(given: unknown, option: string): readonly (readonly [string, unknown])[] {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw optionError(option, 'an object of labels', given);
  }
  const entries = Object.entries(given).filter(([, value]) => value !== undefined);
  if (entries.length > MAX_LABELS) throw optionError(option, `at most ${MAX_LABELS} labels`, entries.length);
  const unnamed = entries.find(([name]) => !LABEL_NAME.test(name));
  if (unnamed) {
    const wanted = 'named with 1 to 32 lowercase letters, digits and _, beginning with a letter';
    throw optionError(option, wanted, unnamed[0]);
  }
  return entries;
}

function parseValue(name: string, value: unknown, option: string): LabelValue {
  const kind = Object.hasOwn(KNOWN, name) ? KNOWN[name] : undefined;
  if (typeof value === 'boolean' && kind !== 'string') return value;
  if (typeof value === 'string' && LABEL_WORD.test(value) && kind !== 'boolean') return value;
  const word = 'a word of 1 to 64 visible characters';
  throw optionError(
    `${option}.${name}`,
    kind === 'boolean' ? 'a boolean' : kind ? word : LABEL_WANTED,
    value,
  );
}

function isList(value: LabelValue | readonly LabelValue[]): value is readonly LabelValue[] {
  return Array.isArray(value);
}
