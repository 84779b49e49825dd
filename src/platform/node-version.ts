/** Whether this is Node itself: other runtimes name a version of Node, too. */
export function isNode({ bun, deno }: NodeJS.ProcessVersions): boolean {
  return bun === undefined && deno === undefined;
}

/** What is wrong with the version of Node that runs this; undefined if it is supported, or another runtime. */
export function unsupportedNode(versions: NodeJS.ProcessVersions): string | undefined {
  if (!isNode(versions)) return undefined;
  const { node } = versions;
  const [major = 0, minor = 0] = node.split('.').map(Number);
  if (major > 22 || (major === 22 && minor >= 15)) return undefined;
  return `requires Node >= 22.15, found ${node}`;
}
