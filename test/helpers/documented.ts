import { readFileSync } from 'node:fs';

const ROOT = new URL('../..', import.meta.url).pathname;

export function documentedPage(page: string): string {
  return readFileSync(`${ROOT}docs/${page}`, 'utf8');
}

/**
 * A block of code of a page, as its reader would copy it.
 *
 * @param name - what the comment on its first line says: `hapi.js` of `// hapi.js`, `nginx.conf` of `# nginx.conf`
 */
export function documentedBlock(page: string, name: string): string {
  const source = documentedPage(page);
  const start = Math.max(source.indexOf(`\n// ${name}\n`), source.indexOf(`\n# ${name}\n`));
  if (start < 0) throw new Error(`docs/${page} has no block that begins with // or # ${name}`);
  return source.slice(start + 1, source.indexOf('\n```', start) + 1);
}
