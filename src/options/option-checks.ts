import { suggestion, keyTypoError } from '../platform/did-you-mean.ts';
import { showKind, showValue } from '../platform/show-value.ts';

/** @throws {TypeError} unless it is an object, with only known keys if those are given */
export function assertObject(
  value: unknown,
  option: string,
  known?: Readonly<Record<string, unknown>>,
): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new TypeError(`${option} must be an object, got ${showKind(value)}`);
  if (!known) return;
  for (const key of Object.keys(value)) {
    if (!Object.hasOwn(known, key)) {
      throw keyTypoError(option, key, Object.keys(known));
    }
  }
}

export function positiveInteger(value: unknown, option: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
  throw optionError(option, 'a positive integer', value);
}

export function integerIn(min: number, max: number, value: unknown, option: string): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
  throw optionError(option, `an integer from ${min} to ${max}`, value);
}

/** The TypeError for an option, with its name, the valid values and the given value. */
export function optionError(option: string, wanted: string, got: unknown): TypeError {
  return new TypeError(`${option} must be ${wanted}, got ${showValue(got)}`);
}

/** The same where the valid values are words; suggests the nearest. */
export function oneOfError(option: string, words: readonly string[], got: unknown): TypeError {
  const { message } = optionError(option, `one of ${words.join(', ')}`, got);
  return new TypeError(`${message}${suggestion(got, words)}`);
}

/** What can stand in a header as a provider's key. */
export const SENDABLE_KEY: RegExp = /^[\u0021-\u007e]+$/;
/** What is wrong with another key, without showing it. */
export const KEY_FAULT = 'contains a blank, a line break or a non-ASCII character';

export const MAX_TIMER_MS: number = 2 ** 31 - 1;

export function milliseconds(value: unknown, option: string): number {
  if (typeof value !== 'number' || !(value > 0 && value <= MAX_TIMER_MS)) {
    throw optionError(option, `a number of milliseconds from 1 to ${MAX_TIMER_MS}`, value);
  }
  return value;
}
