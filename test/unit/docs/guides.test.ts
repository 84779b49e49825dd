import { readdirSync, readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { documentedBlocks } from '../../helpers/documented.ts';

const ROOT = new URL('../../..', import.meta.url).pathname;
const read = (page: string): string => readFileSync(`${ROOT}docs/${page}`, 'utf8');

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

  it('has TOML of tables, and of members that are basic strings', () => {
    const lines = documentedBlocks('coding-tools.md', 'toml').join('').split('\n');
    expect(lines.length).toBeGreaterThan(3);
    for (const line of lines) expect(line).toMatch(/^(|\[[\w.]+\]|\w+ = "[^"\\]*")$/);
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
