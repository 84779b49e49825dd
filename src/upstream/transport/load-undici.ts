import { createRequire } from 'node:module';

import type * as undici from 'undici';

/** The oldest version that is tested. */
const MIN_VERSION = '7.16';

/**
 * Loads undici, an optional peer dependency.
 *
 * @throws {Error} that says what to install, or that the runtime has an undici of its own
 */
export function loadUndici(): typeof undici {
  const require = createRequire(import.meta.url);
  const loaded = load(require);
  // Bun gives its own module for this name, whose clients send nothing.
  if (typeof loaded.Client.prototype.destroy !== 'function') {
    throw new Error(
      'undiciTransport does not run on this runtime, which replaces undici by a module of its own: leave out the option transport',
    );
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  assertVersion((require('undici/package.json') as { readonly version: string }).version);
  return loaded;
}

function load(require: NodeJS.Require): typeof undici {
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    return require('undici') as typeof undici;
  } catch (cause) {
    throw new Error(`undiciTransport needs undici ${MIN_VERSION} or later: npm install undici`, { cause });
  }
}

/** Many apps have an older one, for another package. */
export function assertVersion(version: string): void {
  if (isAtLeast(version, MIN_VERSION)) return;
  throw new Error(
    `undiciTransport needs undici ${MIN_VERSION} or later, and ${version} is installed: npm install undici@latest`,
  );
}

/** Of versions without a pre-release. */
function isAtLeast(version: string, min: string): boolean {
  return version.localeCompare(min, 'en', { numeric: true }) >= 0;
}
