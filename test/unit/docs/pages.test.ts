import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

import { describe, expect, it } from 'vitest';

import { SIDEBAR } from '../../../docs/.vitepress/sidebar.ts';
import { slugOf } from '../../../docs/.vitepress/slug.ts';
import { summaryOf } from '../../../docs/.vitepress/text-files.ts';

const ROOT = join(import.meta.dirname, '../../..');
const PAGES = readdirSync(join(ROOT, 'docs')).filter((name) => name.endsWith('.md'));
/** All Markdown that people read. */
const FILES = globSync(['*.md', 'docs/*.md', 'examples/*.md', 'examples/*/*.md', 'bench/*.md'], {
  cwd: ROOT,
}).filter((file) => !file.includes('node_modules'));

const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const withoutCode = (source: string): string =>
  source
    .replaceAll(/^```.*?^```$/gms, '')
    .replaceAll(/`[^`\n]*`/g, (code) => code.replaceAll(/[[\]<]/g, ' '));

/** What a link can name in a page: its headings, as GitHub makes anchors of them, and the ids that it sets itself. */
function anchorsOf(source: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  const text = source.replaceAll(/^```.*?^```$/gms, '');
  for (const [, heading = ''] of text.matchAll(/^#{1,6} (.*)$/gm)) {
    const slug = slugOf(heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1'));
    let anchor = slug;
    for (let i = 1; anchors.has(anchor); i++) anchor = `${slug}-${i}`;
    anchors.add(anchor);
  }
  for (const [, id = ''] of text.matchAll(/<a id="([^"]+)">/g)) anchors.add(id);
  return anchors;
}

describe('the pages of docs/', () => {
  it('are in the sidebar, each once', () => {
    const listed = SIDEBAR.flatMap(({ pages }) => Object.keys(pages).map((page) => `${page}.md`));
    expect(listed.toSorted()).toEqual(PAGES.toSorted());
  });

  it.each(PAGES)('begin with a title and what the page is for: %s', (page) => {
    const source = read(`docs/${page}`);
    expect(source).toMatch(/^# \S/);
    expect(summaryOf(source)).toMatch(/\w/);
  });
});

it.each(FILES)('%s links to files and anchors that exist', (file) => {
  const broken = [...withoutCode(read(file)).matchAll(/\]\((?!\w+:)([^)\s]+)\)/g)].flatMap(
    ([, link = '']) => {
      const [path = '', anchor] = decodeURIComponent(link).split('#');
      const target = path === '' ? file : relative(ROOT, join(ROOT, dirname(file), path));
      if (!existsSync(join(ROOT, target))) return link;
      if (anchor === undefined || !target.endsWith('.md')) return [];
      return anchorsOf(read(target)).has(anchor) ? [] : link;
    },
  );
  expect(broken).toEqual([]);
});
