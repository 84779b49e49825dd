import { keyTypoError } from './did-you-mean.ts';
import { showKind } from './show-value.ts';

/**
 * The options of a function.
 *
 * @param known - has all of their names; without it another check sees to them
 * @throws {TypeError} that says what they must be, unless they are an object, and that names an unknown one
 */
export function optionsObject<T extends object>(
  options: T,
  known?: Readonly<Record<keyof T, unknown>>,
  wanted = 'an object',
): T {
  if (typeof options !== 'object' || options === null)
    throw new TypeError(`options must be ${wanted}, got ${showKind(options)}`);
  const unknown = known && Object.keys(options).find((name) => !Object.hasOwn(known, name));
  if (unknown !== undefined) throw keyTypoError('options', unknown, Object.keys(known ?? {}));
  return options;
}
