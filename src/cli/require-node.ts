/**
 * Rejects a version of Node that is too old. Must run before other modules are loaded: an old Node may not parse them.
 *
 * @throws {Error} naming the required version
 */
export function requireNode(version: string): void {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < 22 || (major === 22 && minor < 15)) {
    throw new Error(`requires Node >= 22.15, found ${version}`);
  }
}
