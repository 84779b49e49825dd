import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';

import { describe, expect, it } from 'vitest';

const SRC = new URL('../src', import.meta.url).pathname;

/** Part of src → the parts it may import: the drawing in ARCHITECTURE.md, as data. */
const BOTTOM = ['errors.ts', 'json', 'ledger'];
const LOW = ['metering', 'options.ts', ...BOTTOM];
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  'errors.ts': [],
  json: [],
  ledger: ['errors.ts'],
  metering: BOTTOM,
  'options.ts': ['metering', ...BOTTOM],
  http: LOW,
  accounts: LOW,
  models: LOW,
  upstream: ['http', 'models', ...LOW],
  'outcome.ts': ['models', ...LOW],
  'settlement.ts': ['outcome.ts', 'accounts', 'models', 'http', ...LOW],
  'completion.ts': ['settlement.ts', 'outcome.ts', 'accounts', 'models', 'upstream', 'http', ...LOW],
  'routes.ts': ['completion.ts', 'accounts', 'models', 'http', ...LOW],
  adapters: ['http'],
  'router.ts': ['routes.ts', 'adapters', 'settlement.ts', 'accounts', 'models', 'upstream', 'http', ...LOW],
  'index.ts': ['router.ts', 'adapters', 'accounts', ...LOW],
};

/** Package → the only files that may name it. */
const DOOR: Readonly<Record<string, readonly string[]>> = {
  'http-proxy-middleware': ['upstream/send.ts'],
  'lru-cache': ['accounts/authenticate.ts'],
};

/** What is wrong with the imports of a file; empty when nothing is. */
function wrongImports(file: string, source: string): string[] {
  const wrong: string[] = [];
  for (const specifier of specifiers(source)) {
    if (specifier.startsWith('.')) {
      const imported = part(posix.join(posix.dirname(file), specifier));
      if (imported === 'index.ts') wrong.push(`${file} imports the public surface`);
      else if (imported !== part(file) && !MAY_IMPORT[part(file)]?.includes(imported)) {
        wrong.push(`${file} imports ${imported}, which is not below it`);
      }
    } else if (!specifier.startsWith('node:') && !DOOR[specifier]?.includes(file)) {
      wrong.push(`${file} imports ${specifier}, which is not its door`);
    }
  }
  return wrong;
}

/** Of `import … from`, `import '…'`, `export … from` and `import('…')`. */
function specifiers(source: string): string[] {
  const pattern = /(?:\b(?:import|export)\b[^'"`;]*?\bfrom\s*|\bimport\s*\(?\s*)['"]([^'"]+)['"]/g;
  return [...source.matchAll(pattern)].map(([, specifier = '']) => specifier);
}

/** The folder of src that a file is in, or the file itself. */
function part(file: string): string {
  return file.split('/')[0] ?? file;
}

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
const read = (file: string): string => readFileSync(join(SRC, file), 'utf8');

describe('src', () => {
  it.each(files)('%s imports only what its part may', (file) => {
    expect(wrongImports(file, read(file))).toEqual([]);
  });

  it.each(files)('%s can be read in one sitting, and says what it is by its name', (file) => {
    expect(read(file).split('\n').length).toBeLessThanOrEqual(500);
    expect(file).not.toMatch(/(^|\/)(utils?|types|helpers?|common|misc)(\.ts|\/)/);
    expect(read(file)).not.toMatch(/^export default\b/m);
  });

  it('has a rule for each of its parts', () => {
    expect(new Set(files.map(part))).toEqual(new Set(Object.keys(MAY_IMPORT)));
  });
});

describe('the rule of imports', () => {
  it.each([
    ['metering/price.ts', "import { completion } from '../completion.ts';"],
    ['metering/price.ts', "import type { Model } from '../models/catalog.ts';"],
    ['ledger/ledger.ts', "export { charge } from '../metering/price.ts';"],
    ['http/relay.ts', "const late = await import('../upstream/send.ts');"],
    ['routes.ts', "import '../src/index.ts';"],
    ['router.ts', "import { x } from './index.ts';"],
    ['upstream/attempt.ts', "import { createProxyMiddleware } from 'http-proxy-middleware';"],
    ['http/relay.ts', "import type OpenAI from 'openai';"],
    ['http/relay.ts', "import {\n  a,\n  b,\n} from 'lodash';"],
  ])('refuses %s: %s', (file, source) => {
    expect(wrongImports(file, source)).toHaveLength(1);
  });

  it('allows what points down, and a package at its door', () => {
    const source =
      "import { hash } from 'node:crypto';\nimport { LRUCache } from 'lru-cache';\nimport '../errors.ts';";
    expect(wrongImports('accounts/authenticate.ts', source)).toEqual([]);
  });
});
