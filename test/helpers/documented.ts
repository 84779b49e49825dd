import { readFileSync } from 'node:fs';

const ROOT = new URL('../..', import.meta.url).pathname;

/**
 * A block of code of a page, as its reader would copy it.
 *
 * @param name - what its first line says, without the slashes: `hapi.js`
 */
export function documentedBlock(page: string, name: string): string {
  const source = readFileSync(`${ROOT}docs/${page}`, 'utf8');
  const start = source.indexOf(`\n// ${name}\n`);
  if (start < 0) throw new Error(`docs/${page} has no block that begins with // ${name}`);
  return source.slice(start + 1, source.indexOf('\n```', start) + 1);
}
