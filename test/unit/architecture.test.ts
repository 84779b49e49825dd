import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';

import { describe, expect, it } from 'vitest';

import { REJECTED_FIELDS } from '../../src/http/rejected-fields.ts';
import { BILLED_FIELDS, GOOGLE_MEMBERS } from '../../src/http/billed-fields.ts';
import { PRESET_FEES } from '../../src/catalog/preset-fees.ts';
import { PRESET_FIELDS } from '../../src/catalog/preset-fields.ts';
import { PRESETS } from '../../src/catalog/presets.ts';

const SRC = new URL('../../src', import.meta.url).pathname;

const BOTTOM = ['async', 'errors.ts', 'in-flight.ts', 'evidence.ts', 'lend-require.ts', 'json', 'ledger'];
const LOW = [
  'metering',
  'settings.ts',
  'options',
  'hooks.ts',
  'observation.ts',
  'live-request.ts',
  ...BOTTOM,
];

/** Part of src → the parts it may import: the drawing in ARCHITECTURE.md, as data. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  'errors.ts': ['errors'],
  errors: [],
  async: [],
  'in-flight.ts': [],
  'evidence.ts': [],
  'lend-require.ts': [],
  'live-request.ts': ['observation.ts', 'ledger'],
  json: [],
  ledger: ['async', 'errors.ts', 'lend-require.ts'],
  metering: BOTTOM,
  'hooks.ts': ['metering', 'ledger'],
  'recorded-content.ts': ['hooks.ts'],
  'observation.ts': ['recorded-content.ts', 'hooks.ts', 'ledger', 'errors.ts'],
  'guarded-hooks.ts': ['observation.ts', 'hooks.ts', 'ledger', 'errors.ts'],
  'settings.ts': ['options', 'hooks.ts', 'metering', 'ledger', 'errors.ts'],
  options: ['hooks.ts', 'metering', 'ledger'],
  http: ['async', 'metering', 'settings.ts', 'options', 'json', 'errors.ts'],
  accounts: ['http', 'metering', 'options', 'ledger', 'errors.ts'],
  models: ['http', ...LOW],
  upstream: ['http', 'models', ...LOW],
  'outcome.ts': ['models', ...LOW],
  'admission.ts': ['models', 'http', ...LOW],
  holds: ['outcome.ts', 'accounts', 'models', 'http', ...LOW],
  'settlement.ts': ['holds', 'admission.ts', 'outcome.ts', 'accounts', 'models', 'http', ...LOW],
  'discovery.ts': ['models', 'upstream', ...LOW],
  'completion.ts': [
    'discovery.ts',
    'settlement.ts',
    'holds',
    'admission.ts',
    'outcome.ts',
    'accounts',
    'models',
    'upstream',
    'http',
    ...LOW,
  ],
  'own-account.ts': ['async', 'accounts', 'http', 'ledger', 'errors.ts'],
  'routes.ts': ['discovery.ts', 'completion.ts', 'own-account.ts', 'accounts', 'models', 'http', ...LOW],
  adapters: ['http'],
  'router.ts': [
    'discovery.ts',
    'guarded-hooks.ts',
    'recorded-content.ts',
    'routes.ts',
    'adapters',
    'settlement.ts',
    'accounts',
    'models',
    'upstream',
    'http',
    ...LOW,
  ],
  admin: [
    'router.ts',
    'live-request.ts',
    'adapters',
    'accounts',
    'http',
    'options',
    'hooks.ts',
    'ledger',
    'json',
    'errors.ts',
  ],
  'admin/page': [],
  'admin.ts': ['admin'],
  'fastify.ts': ['adapters'],
  'hono.ts': ['adapters'],
  'koa.ts': ['adapters'],
  'next.ts': ['adapters'],
  'index.ts': ['router.ts', 'adapters', 'accounts', ...LOW],
  config: ['options', 'prices.ts'],
  init: ['config'],
  serve: ['router.ts', 'admin', 'config', 'harmless.ts', ...LOW],
  check: ['router.ts', 'config', 'models', 'upstream', 'http', 'prices.ts', ...LOW],
  'prices.ts': ['options', 'metering'],
  'harmless.ts': [],
  commands: ['accounts', 'config', 'ledger', 'harmless.ts'],
  'cli.ts': ['commands', 'config', 'ledger'],
  opentelemetry: ['hooks.ts'],
  'opentelemetry.ts': ['opentelemetry', 'hooks.ts'],
  prometheus: ['hooks.ts'],
  'prometheus.ts': ['prometheus', 'hooks.ts'],
  testing: [],
  'testing.ts': ['testing'],
};

/** Package → the only files that may name it, or the folder (`admin/`); one that isn't here may be named by none. */
const DOOR: Readonly<Record<string, readonly string[]>> = {
  '@opentelemetry/api': ['opentelemetry.ts', 'opentelemetry/spans.ts', 'opentelemetry/instruments.ts'],
  'http-proxy-middleware': ['upstream/send.ts'],
  ioredis: ['ledger/redis/ioredis.ts'],
  'lru-cache': [
    'accounts/authenticate.ts',
    'models/caller-markup.ts',
    'models/catalog.ts',
    'models/list.ts',
    'models/wildcards.ts',
    'upstream/provider-keys.ts',
  ],
  '@pydantic/genai-prices': ['prices.ts'],
  'next/server.js': ['next.ts'],
  preact: ['admin/page/'],
  'preact/hooks': ['admin/page/'],
  'node:sqlite': ['ledger/sqlite/sqlite-store.ts'],
  valibot: ['admin/'],
  '@valibot/to-json-schema': ['admin/openapi.ts'],
};

/** The files with timers of their own, and what those are for. A wait for another process is a `Timeout` of `async/`. */
const TIMERS: Readonly<Record<string, string>> = {
  'admin/page/polling.ts': 'refreshes the page',
  'async/timeout.ts': 'the wait itself',
  'discovery.ts': 'asks for the lists again',
  'holds/growth.ts': 'pauses between two tries',
  'holds/heartbeat.ts': 'renews leases',
  'http/stream-heartbeat.ts': 'breaks the silence of a stream',
  'ledger/operations/housekeeping.ts': 'runs what is due',
  'ledger/redis/redis-connection.ts': 'pauses between two tries',
  'ledger/redis/redis-durability.ts': 'closes an idle connection',
  'ledger/reliable/deliveries.ts': 'pauses between two tries',
  'ledger/reliable/outbox.ts': 'writes and syncs its file',
  'ledger/reliable/redo.ts': 'looks after accounts',
  'ledger/reliable/store-health.ts': 'tells that the store is back',
  'ledger/sqlite/sqlite-queue.ts': 'pauses between two tries, and what counts of them',
  'ledger/sqlite/sqlite-session.ts': 'pauses between two tries',
  'opentelemetry/spans.ts': 'ends a span without its charge',
  'settlement.ts': 'pauses between two tries',
  'testing/script.ts': 'pauses of a fake provider',
  'upstream/failover.ts': 'pauses between two tries',
};

/** Loaded by the command that wants it, when it does, types aside: the ledger's commands start without the router. */
const LATE: Readonly<Record<string, readonly string[]>> = { commands: ['check', 'init', 'serve'] };

/** What is wrong with the imports of a file; empty when nothing is. */
function wrongImports(file: string, source: string): string[] {
  const wrong: string[] = [];
  for (const { specifier, isLate } of specifiers(source)) {
    if (specifier.startsWith('.')) {
      const imported = part(posix.join(posix.dirname(file), specifier));
      if (isLate && LATE[part(file)]?.includes(imported)) continue;
      if (imported === 'index.ts') wrong.push(`${file} imports the public surface`);
      else if (imported !== part(file) && !MAY_IMPORT[part(file)]?.includes(imported)) {
        wrong.push(`${file} imports ${imported}, which is not below it`);
      }
    } else if (!(DOOR[specifier]?.some((door) => isAt(door, file)) ?? specifier.startsWith('node:'))) {
      wrong.push(`${file} imports ${specifier}, whose door is elsewhere`);
    }
  }
  return wrong;
}

/**
 * Of `import … from`, `import '…'`, `export … from`, `import('…')` and `process.getBuiltinModule('…')`;
 * docstrings may show others what to import.
 */
function specifiers(source: string): { readonly specifier: string; readonly isLate: boolean }[] {
  const pattern =
    /(?:\b(?:import|export)\b[^'"`;]*?\bfrom\s*|\bimport\s*\(?\s*|\bgetBuiltinModule\??\.?\(\s*)['"`]([^'"`]+)['"`]/g;
  return [...source.replace(/\/\*\*.*?\*\//gs, '').matchAll(pattern)].map(([whole, specifier = '']) => ({
    specifier,
    isLate: /^import(\s*\(|\s+type\b)/.test(whole),
  }));
}

/** Whether a file is the one that is named, or in the folder. */
function isAt(door: string, file: string): boolean {
  return door.endsWith('/') ? file.startsWith(door) : file === door;
}

/** What is wrong with a file's name, length or exports; empty when nothing is. */
function wrongShape(file: string, source: string): string[] {
  const wrong: string[] = [];
  if (/(^|\/)(utils?|types|helpers?|common|misc)(\.tsx?|\/)/.test(file)) {
    wrong.push(`${file} doesn't say by its name what it is`);
  }
  const lines = source.trimEnd().split('\n').length;
  if (lines > 500) wrong.push(`${file} is ${lines} lines long: two files`);
  if (/^export default\b|\bas default\b/m.test(source)) wrong.push(`${file} has a default export`);
  return wrong;
}

/** The folder of src that a file is in, or the file itself. What runs in a browser is a part of its own. */
function part(file: string): string {
  if (file.startsWith('admin/page/')) return 'admin/page';
  return file.split('/')[0] ?? file;
}

/** What is written by hand; what is built is made of it. */
const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter(
  (file) => /\.tsx?$/.test(file) && !file.endsWith('.generated.ts'),
);
const read = (file: string): string => readFileSync(join(SRC, file), 'utf8');

describe('src', () => {
  it.each(files)('%s imports only what its part may', (file) => {
    expect(wrongImports(file, read(file))).toEqual([]);
  });

  it.each(files)('%s can be read in one sitting, and says what it is by its name', (file) => {
    expect(wrongShape(file, read(file))).toEqual([]);
  });

  it('has timers only where no other process is waited for: a busy one runs those before it reads its sockets', () => {
    const isTimer = /\bset(Timeout|Interval)\b|\bAbortSignal\.timeout\b/;
    expect(files.filter((file) => isTimer.test(read(file))).toSorted()).toEqual(Object.keys(TIMERS));
  });

  it('has a rule for each of its parts', () => {
    expect(new Set(files.map(part))).toEqual(new Set(Object.keys(MAY_IMPORT)));
  });
});

describe('the rule of imports', () => {
  it.each([
    ['metering/price.ts', "import { completion } from '../completion.ts';"],
    ['metering/price.ts', "import type { Model } from '../models/model.ts';"],
    ['ledger/ledger.ts', "export { charge } from '../metering/price.ts';"],
    ['http/relay.ts', "const late = await import('../upstream/send.ts');"],
    ['http/relay.ts', 'const late = await import(`../upstream/send.ts`);'],
    ['http/relay.ts', "export type * from '../ledger/ledger.ts';"],
    ['routes.ts', "import '../src/index.ts';"],
    ['router.ts', "import { x } from './index.ts';"],
    ['upstream/attempt.ts', "import { createProxyMiddleware } from 'http-proxy-middleware';"],
    ['models/lifecycle.ts', "import type { LRUCache } from 'lru-cache';"],
    ['ledger/ledger.ts', "import type { Redis } from 'ioredis';"],
    ['ledger/memory/memory-store.ts', "const { DatabaseSync } = process.getBuiltinModule('node:sqlite');"],
    ['http/relay.ts', "import type OpenAI from 'openai';"],
    ['admin.ts', "import * as v from 'valibot';"],
    ['admin/door.ts', "import { money } from './page/format.ts';"],
    ['admin/page/api.ts', "import { RouterError } from '../../errors.ts';"],
    ['admin/door.ts', "import { render } from 'preact';"],
    ['http/relay.ts', "import {\n  a,\n  b,\n} from 'lodash';"],
    ['commands/serve.ts', "import { serve } from '../serve/serve.ts';"],
    ['commands/audit.ts', "const { route } = await import('../router.ts');"],
  ])('refuses %s: %s', (file, source) => {
    expect(wrongImports(file, source)).toHaveLength(1);
  });

  it('allows a command to load late what it alone needs', () => {
    expect(wrongImports('commands/serve.ts', "const { serve } = await import('../serve/serve.ts');")).toEqual(
      [],
    );
  });

  it('allows what points down, and a package at its door', () => {
    const source =
      "import { hash } from 'node:crypto';\nimport { LRUCache } from 'lru-cache';\nimport '../errors.ts';";
    expect(wrongImports('accounts/authenticate.ts', source)).toEqual([]);
  });
});

describe('the table of what servers read', () => {
  it('has a row with its source for each preset, in their order, and for nothing else', () => {
    expect(Object.keys(PRESET_FIELDS)).toEqual(Object.keys(PRESETS));
    for (const { source } of Object.values(PRESET_FIELDS)) expect(source).toMatch(/\w\.\w/);
  });

  it('names no other output limit or number of answers than those that are refused', () => {
    const names = Object.values(PRESET_FIELDS).flatMap(({ others = [] }) => others);
    expect(names.filter((name) => !Object.hasOwn(REJECTED_FIELDS, name))).toEqual([]);
  });

  it('has a rule for the images of every model', () => {
    for (const { imageTokens } of Object.values(PRESET_FIELDS)) expect(imageTokens['']).toBeGreaterThan(0);
  });
});

describe('the table of what servers bill beside tokens', () => {
  it('has a row with its source for each preset, in their order, and for nothing else', () => {
    expect(Object.keys(PRESET_FEES)).toEqual(Object.keys(PRESETS));
    for (const row of Object.values(PRESET_FEES)) {
      expect(row).toEqual({
        tools: expect.any(Object),
        fields: expect.any(Object),
        parts: expect.any(Array),
        source: expect.stringMatching(/\w\.\w/),
      });
    }
  });

  it('names no other fields than those that are looked for in a request', () => {
    const looked = [...Object.keys(BILLED_FIELDS), ...Object.values(GOOGLE_MEMBERS)];
    const named = Object.values(PRESET_FEES).flatMap(({ fields }) => Object.keys(fields));
    expect(named.filter((name) => !looked.includes(name))).toEqual([]);
    expect(Object.keys(BILLED_FIELDS).filter((name) => Object.hasOwn(REJECTED_FIELDS, name))).toEqual([]);
  });

  it("has no type of tool that is the client's own", () => {
    const tools = Object.values(PRESET_FEES).flatMap((row) => Object.keys(row.tools));
    expect(tools).not.toContain('function');
    expect(tools).not.toContain('custom');
  });
});

describe('the rule of shapes', () => {
  it.each([
    ['a file of no subject', 'http/utils.ts', ''],
    ['a file of types', 'types.ts', ''],
    ['a folder of no subject', 'helpers/relay.ts', ''],
    ['a default export', 'http/relay.ts', 'export default function relay() {}'],
    ['a default export in a list', 'http/relay.ts', 'export { relay as default };'],
    ['501 lines', 'http/relay.ts', '// one more\n'.repeat(501)],
  ])('refuses %s', (_fault, file, source) => {
    expect(wrongShape(file, source)).toHaveLength(1);
  });

  it('allows 500 lines', () => {
    expect(wrongShape('http/relay.ts', '// one more\n'.repeat(500))).toEqual([]);
  });
});
