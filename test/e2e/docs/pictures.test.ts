import { readdirSync, readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { CHROMIUM } from '../helpers/chromium.ts';
import { accountViews } from '../pictures/account-page.ts';
import { consoleViews } from '../pictures/console.ts';

if (!CHROMIUM) console.log('Skipped for want of a Chromium in /usr/bin: the pictures of the docs.');

const DOCS = new URL('../../../docs/', import.meta.url);

/** `npm run pictures` writes them. */
describe.skipIf(!CHROMIUM)('the pictures of the docs', () => {
  it.each([
    ['console', 'console.md', consoleViews],
    ['account', 'account-page.md', accountViews],
  ] as const)(
    'are of all views of %s, and stand in its page',
    { timeout: 120_000 },
    async (kind, page, make) => {
      const made = [...(await make()).keys()].map((name) => `${kind}-${name}.png`).toSorted();
      const kept = readdirSync(DOCS).filter((name) => name.startsWith(`${kind}-`) && name.endsWith('.png'));
      expect(kept.toSorted()).toEqual(made);
      const text = readFileSync(new URL(page, DOCS), 'utf8');
      expect(made.filter((name) => !text.includes(`(${name})`))).toEqual([]);
    },
  );

  it.each([
    ['admin', 'console', { overview: 'usage-page' }],
    ['account', 'account', {}],
  ] as const)('have one of each view in views.ts of %s', (part, kind, elsewhere) => {
    const views = readFileSync(new URL(`../src/${part}/page/views.ts`, DOCS), 'utf8');
    const names = [...views.matchAll(/\{ name: '(\w+)'/g)].map(([, name = '']) => name);
    expect(names.length).toBeGreaterThan(5);
    const files = names.map(
      (name) => Object.entries(elsewhere).find(([view]) => view === name)?.[1] ?? `${kind}-${name}`,
    );
    expect(readdirSync(DOCS)).toEqual(expect.arrayContaining(files.map((file) => `${file}.png`)));
  });
});
