import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { afterAll, beforeAll, expect, it } from 'vitest';

import { installPacked } from '../../helpers/packed-package.ts';

const folder = mkdtempSync(join(tmpdir(), 'ccr-links-'));
let installed: string;

beforeAll(() => {
  installed = installPacked(folder);
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

it('has a file and a heading for each relative link in its pages', () => {
  const pages = globSync(['*.md', '{docs,examples,bench}/**/*.md'], { cwd: installed });
  expect(pages).toEqual(
    expect.arrayContaining(['README.md', 'CHANGELOG.md', 'docs/options.md', 'bench/NOTES.md']),
  );
  expect(pages.flatMap(deadLinks)).toEqual([]);
});

function deadLinks(page: string): string[] {
  const source = readFileSync(join(installed, page), 'utf8').replace(/^```.*?^```/gms, '');
  const links = [...source.matchAll(/\]\(([^)\s]+)\)|\b(?:src|href)="([^"]+)"/g)]
    .map(([, link, attribute]) => link ?? attribute ?? '')
    .filter((link) => !/^[a-z]+:/.test(link));
  return links.filter((link) => !leadsSomewhere(page, link)).map((link) => `${page}: ${link}`);
}

function leadsSomewhere(page: string, link: string): boolean {
  const [path = '', anchor] = decodeURIComponent(link).split('#');
  const file = path === '' ? join(installed, page) : join(installed, dirname(page), path);
  if (!existsSync(file)) return false;
  return anchor === undefined || (statSync(file).isFile() && anchorsOf(file).has(anchor));
}

/** As GitHub makes them of headings. */
function anchorsOf(file: string): Set<string> {
  const source = readFileSync(file, 'utf8').replace(/^```.*?^```/gms, '');
  const headings = [...source.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
  const named = [...source.matchAll(/<a (?:id|name)="([^"]+)"/g)].map(([, name = '']) => name);
  return new Set([...headings, ...named]);
}
