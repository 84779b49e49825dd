import { createRequire } from 'node:module';

import type * as undici from 'undici';

/**
 * Loads undici, an optional peer dependency.
 *
 * @throws {Error} that says what to install, or that the runtime has an undici of its own
 */
export function loadUndici(): typeof undici {
  const loaded = load();
  // Bun gives its own module for this name, whose clients send nothing.
  if (typeof loaded.Client.prototype.destroy === 'function') return loaded;
  throw new Error(
    'undiciTransport does not run on this runtime, which replaces undici by a module of its own: leave out the option transport',
  );
}

function load(): typeof undici {
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    return createRequire(import.meta.url)('undici') as typeof undici;
  } catch (cause) {
    throw new Error('undiciTransport needs the package undici: npm install undici', { cause });
  }
}
