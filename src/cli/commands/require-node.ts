/**
 * Refuses a Node that lacks what commands use: a package manager may only have warned, and what breaks first says nothing of it.
 *
 * @throws {Error} naming the version that is needed
 */
export function requireNode(version: string): void {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < 22 || (major === 22 && minor < 15)) {
    throw new Error(`Node 22.15 or later is needed, and this is ${version}`);
  }
}
