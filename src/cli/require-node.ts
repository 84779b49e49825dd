/**
 * Refuses a version of Node that is too old. It runs before any other module is loaded: those may not parse there.
 *
 * @throws {Error} naming the version that is needed
 */
export function requireNode(version: string): void {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < 22 || (major === 22 && minor < 15)) {
    throw new Error(`requires Node >= 22.15, found ${version}`);
  }
}
