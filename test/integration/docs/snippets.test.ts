import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

import { documentedBlocks } from '../../helpers/documented.ts';

const ROOT = new URL('../../..', import.meta.url).pathname;
/** Guides: no other test runs what they show, but for the modules of `selling.md` and `multi-tenant.md`. */
const GUIDES = [
  'selling.md',
  'multi-tenant.md',
  'security.md',
  'coding-tools.md',
  'troubleshooting.md',
  'faq.md',
  'glossary.md',
  'comparison.md',
  'versioning.md',
];

const read = (page: string): string => readFileSync(`${ROOT}docs/${page}`, 'utf8');

describe.each(GUIDES)('docs/%s', (page) => {
  it('has no block in a language that is not checked', () => {
    const languages = [...read(page).matchAll(/^```(\w*)\n.*?^```$/gms)].map(([, language]) => language);
    for (const language of languages)
      expect(['ts', 'sh', 'json', 'yaml', 'toml', 'text']).toContain(language);
  });

  it('has JSON, YAML and shell commands that parse', () => {
    for (const block of documentedBlocks(page, 'json')) expect(() => JSON.parse(block), block).not.toThrow();
    for (const block of documentedBlocks(page, 'yaml')) expect(() => parse(block), block).not.toThrow();
    for (const block of documentedBlocks(page, 'sh')) {
      expect(spawnSync('sh', ['-n'], { input: block, encoding: 'utf8' }).stderr).toBe('');
    }
    // Of TOML: tables, and members that are basic strings.
    for (const line of documentedBlocks(page, 'toml').join('').split('\n')) {
      expect(line).toMatch(/^(|\[[\w.]+\]|\w+ = "[^"\\]*")$/);
    }
  });

  it('leads to headings that exist', () => {
    for (const [, file = '', anchor = ''] of read(page).matchAll(/\]\(([\w-]+\.md)?#([^)]+)\)/g)) {
      if (file === 'errors.md') continue; // its rows: see below
      expect(anchorsOf(file || page), `${page}: ${file}#${anchor}`).toContain(anchor);
    }
  });

  it('leads to rows of errors.md by codes that exist', () => {
    for (const [, code] of read(page).matchAll(/\]\(errors\.md#([^)]+)\)/g)) expect(CODES).toContain(code);
  });
});

describe('docs/troubleshooting.md', () => {
  it('has a row for every code, in alphabetical order, that links to its row in errors.md', () => {
    const table = read('troubleshooting.md').split('## By error code')[1] ?? '';
    const rows = [...table.matchAll(/^\| \[`(\w+)`\]\(errors\.md#(\w+)\)/gm)];
    for (const [, code, anchor] of rows) expect(anchor).toBe(code);
    expect(rows.map(([, code]) => code)).toEqual(CODES);
  });
});

describe('docs/glossary.md', () => {
  it('has its terms in alphabetical order, each once', () => {
    const terms = [...read('glossary.md').matchAll(/^\| ([\w-][^|]*?) +\| /gm)].map(([, term = '']) => term);
    expect(terms.length).toBeGreaterThan(50);
    const sorted = terms.slice(1).toSorted((a, b) => (a.toLowerCase() < b.toLowerCase() ? -1 : 1));
    expect(terms.slice(1)).toEqual([...new Set(sorted)]);
  });
});

describe('docs/coding-tools.md', () => {
  it('names one base URL, one model and one variable for the key in every configuration', () => {
    const blocks = ['json', 'yaml', 'toml'].flatMap((language) =>
      documentedBlocks('coding-tools.md', language),
    );
    expect(blocks).toHaveLength(10);
    const urls = blocks.flatMap((block) => [...block.matchAll(/http:\/\/localhost:\d+[\w/]*/g)]);
    const ours = urls.map(([url]) => url).filter((url) => !url.includes(':4000')); // the translator's
    expect(new Set(ours)).toEqual(
      new Set(['http://localhost:8787/v1', 'http://localhost:8787/v1/chat/completions']),
    );
    const withModel = blocks.filter((block) => block.includes('small/chat'));
    expect(withModel).toHaveLength(9); // all but Codex, which names the translator's model
  });

  it('configures opencode with a model that its provider has', () => {
    const [opencode = ''] = documentedBlocks('coding-tools.md', 'json');
    const { model, provider } = JSON.parse(opencode) as {
      readonly model: string;
      readonly provider: Record<string, { readonly models: object }>;
    };
    const [name = '', ...id] = model.split('/');
    expect(provider[name]?.models).toHaveProperty([id.join('/')]);
  });
});

/** Every code that an error of the HTTP API can have, as the source declares them. */
const CODES = readdirSync(`${ROOT}src/errors`)
  .flatMap((file) => [
    ...readFileSync(`${ROOT}src/errors/${file}`, 'utf8').matchAll(/readonly code\b(?: = |:)([^;]*);/g),
  ])
  .flatMap(([, codes = '']) => [...codes.matchAll(/'([a-z_]+)'/g)])
  .map(([, code = '']) => code)
  .toSorted();

/** As GitHub makes them of headings. */
function anchorsOf(page: string): readonly string[] {
  return [...read(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}
