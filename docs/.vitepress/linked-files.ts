import { existsSync, statSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

/**
 * Resolves a link of a page to a file of the repository that is not a page: `../examples/next`, `../SECURITY.md#keys`.
 * A folder stands for its README.
 *
 * @returns its path in the repository; undefined if the link leads elsewhere
 */
export function linkedFile(link: string): string | undefined {
  if (!link.startsWith('../')) return undefined;
  const [target = ''] = link.slice(3).split('#');
  const path = posix.normalize(target).replace(/\/$/, '');
  const file = join(ROOT, path);
  if (!existsSync(file)) throw new Error(`docs/ links to ${link}, which does not exist`);
  if (!statSync(file).isDirectory()) return path;
  return existsSync(join(file, 'README.md')) ? `${path}/README.md` : `${dirname(path)}/README.md`;
}
