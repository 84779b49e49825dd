import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';

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

/** The blocks of a page in one language, in their order. */
export function documentedBlocks(page: string, language: string): readonly string[] {
  const source = readFileSync(`${ROOT}docs/${page}`, 'utf8');
  return [...source.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(
    ([, code = '']) => code,
  );
}

/** The provider of the pages: a test has a fake one in its place. */
const DOCUMENTED_PROVIDER = 'openai: { apiKey: () => process.env.OPENAI_API_KEY }';

/**
 * Writes named blocks of a page as modules of one folder, whose library is this repository's.
 *
 * @param providerURL - base URL of the provider in place of OpenAI
 * @returns imports one of them by its name
 */
export function documentedModules(
  page: string,
  names: readonly string[],
  providerURL: string,
): (name: string) => Promise<unknown> {
  const folder = `${ROOT}.cache/docs/${page.replace('.md', '')}`;
  mkdirSync(folder, { recursive: true });
  for (const name of names) {
    const source = documentedBlock(page, name)
      .replaceAll("'chat-completions-router'", `'${ROOT}src/index.ts'`)
      .replaceAll(DOCUMENTED_PROVIDER, `openai: { baseURL: '${providerURL}', apiKey: 'sk-fake' }`);
    writeFileSync(`${folder}/${name}`, source);
  }
  return async (name) => await import(`${folder}/${name}`);
}
