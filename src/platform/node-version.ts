/** What is wrong with the version of Node that runs this; undefined if it is supported, or another runtime. */
export function unsupportedNode({ node, bun, deno }: NodeJS.ProcessVersions): string | undefined {
  if (bun !== undefined || deno !== undefined) return undefined;
  const [major = 0, minor = 0] = node.split('.').map(Number);
  if (major > 22 || (major === 22 && minor >= 15)) return undefined;
  return `requires Node >= 22.15, found ${node}`;
}
