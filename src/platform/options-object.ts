import { showKind } from './show-value.ts';

/** The options of a function. @throws {TypeError} that says what they must be, unless they are an object */
export function optionsObject<T extends object>(options: T, wanted = 'an object'): T {
  if (typeof options === 'object' && options !== null) return options;
  throw new TypeError(`options must be ${wanted}, got ${showKind(options)}`);
}
