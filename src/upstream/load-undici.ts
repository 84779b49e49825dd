import { createRequire } from 'node:module';

import type * as undici from 'undici';

/**
 * Loads undici, an optional peer dependency.
 *
 * @throws {Error} that says what to install
 */
export function loadUndici(): typeof undici {
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    return createRequire(import.meta.url)('undici') as typeof undici;
  } catch (cause) {
    throw new Error('undiciTransport needs the package undici: npm install undici', { cause });
  }
}
