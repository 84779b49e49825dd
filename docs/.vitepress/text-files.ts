import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { SIDEBAR } from './sidebar.ts';

const DOCS = join(import.meta.dirname, '..');

/** The first paragraph of a page in plain text: what the page is for. */
export function summaryOf(source: string): string {
  const [, paragraph = ''] = /^# .*\n\n(?![#|]|```)([^]+?)\n\n/m.exec(`${source}\n\n`) ?? [];
  return paragraph
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/[`*]/g, '')
    .replaceAll('\n', ' ');
}

/**
 * Writes what readers without a browser take: the Markdown of each page, `llms.txt`, which lists the pages, and
 * `llms-full.txt`, which contains them; and the files of the repository that pages link to, as text.
 */
export function writeTextFiles(site: string, files: Iterable<string>): void {
  const index = [`# chat-completions-router`, '', `> ${summaryOf(read('index'))}`];
  const full: string[] = [];
  for (const { text, pages } of SIDEBAR) {
    index.push('', `## ${text}`, '');
    for (const [page, title] of Object.entries(pages)) {
      const source = read(page);
      index.push(`- [${title}](${page}.md): ${summaryOf(source)}`);
      full.push(source);
      writeFileSync(join(site, `${page}.md`), source);
    }
  }
  writeFileSync(join(site, 'llms.txt'), `${index.join('\n')}\n`);
  writeFileSync(join(site, 'llms-full.txt'), full.join('\n'));
  for (const file of files) {
    const copy = join(site, 'repository', `${file}.txt`);
    mkdirSync(dirname(copy), { recursive: true });
    cpSync(join(DOCS, '..', file), copy);
  }
}

function read(page: string): string {
  return readFileSync(join(DOCS, `${page}.md`), 'utf8');
}
