import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';

import { beforeAll, expect, it } from 'vitest';

import { SIDEBAR } from '../../../docs/.vitepress/sidebar.ts';
import { CHROMIUM, launchChromium } from '../helpers/chromium.ts';

const DOCS = join(import.meta.dirname, '../../../docs');
const SITE = join(DOCS, '.vitepress/dist');
const PAGES = SIDEBAR.flatMap(({ pages }) => Object.keys(pages));

/** Of each page of the site its HTML. */
let html: ReadonlyMap<string, string>;

beforeAll(() => {
  // A link to a page that does not exist ends the build.
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: DOCS, stdio: 'pipe' });
  const files = globSync('*.html', { cwd: SITE });
  html = new Map(files.map((file) => [file, readFileSync(join(SITE, file), 'utf8')]));
}, 300_000);

it('has each page of the sidebar', () => {
  const expected = [...PAGES.map((page) => `${page}.html`), '404.html'];
  expect([...html.keys()].toSorted()).toEqual(expected.toSorted());
});

it('links to files and anchors that it has', () => {
  const broken: string[] = [];
  for (const [file, page] of html) {
    for (const [, link = ''] of page.matchAll(/<a\b[^>]*? href="([^"]*)"/g)) {
      const { pathname, hash, host } = new URL(link.replaceAll('&amp;', '&'), `http://site/${file}`);
      if (host !== 'site') continue;
      const target = pathname.endsWith('/') ? `${pathname}index.html` : pathname;
      const name = /\.\w+$/.test(target) ? target : `${target}.html`;
      const found = html.get(name.slice(1)) ?? (globSync(name.slice(1), { cwd: SITE })[0] && '');
      const id = decodeURIComponent(hash.slice(1));
      if (found === undefined || (id !== '' && !found.includes(` id="${id}"`)))
        broken.push(`${file}: ${link}`);
    }
  }
  expect(broken).toEqual([]);
});

it('has a copy of each file of the repository that a page links to', () => {
  const linked = [...html.values()].flatMap((page) => [...page.matchAll(/href="\/(repository\/[^"]+)"/g)]);
  const copies = globSync('repository/**/*.txt', { cwd: SITE });
  expect(new Set(copies)).toEqual(new Set(linked.map(([, file]) => file)));
});

it('has its pages as text', () => {
  const index = readFileSync(join(SITE, 'llms.txt'), 'utf8');
  const full = readFileSync(join(SITE, 'llms-full.txt'), 'utf8');
  expect([...index.matchAll(/^- \[.+?\]\(([\w-]+)\.md\): \S/gm)].map(([, page]) => page)).toEqual(PAGES);
  for (const page of PAGES) {
    const source = readFileSync(join(DOCS, `${page}.md`), 'utf8');
    expect(readFileSync(join(SITE, `${page}.md`), 'utf8')).toBe(source);
    expect(full).toContain(source);
  }
});

it.skipIf(!CHROMIUM)('finds an error by its code, and asks no other host for anything', async () => {
  const server = await serveSite();
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const browser = await launchChromium();
  try {
    const page = await browser.newPage();
    const requested: string[] = [];
    const errors: string[] = [];
    page.on('request', (request) => requested.push(request.url()));
    page.on('pageerror', (error) => errors.push(String(error)));
    await page.goto(`${origin}/streaming.html`, { waitUntil: 'networkidle' });
    await page.locator('#local-search button').click();
    await page.locator('#localsearch-input').fill('insufficient_credits');
    await page.locator('.results a[href*="/errors"]').first().click();
    await page.locator('h1', { hasText: 'Errors' }).waitFor();
    expect(errors).toEqual([]);
    expect(requested.filter((url) => !url.startsWith(origin))).toEqual([]);
  } finally {
    await browser.close();
    server.closeAllConnections();
    server.close();
  }
});

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css',
  '.html': 'text/html',
  '.js': 'text/javascript',
};

async function serveSite(): Promise<Server> {
  const server = createServer(({ url = '/' }, response) => {
    const file = globSync(new URL(url, 'http://site').pathname.slice(1), { cwd: SITE })[0];
    if (file === undefined) response.writeHead(404).end();
    else
      response
        .writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' })
        .end(readFileSync(join(SITE, file)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}
