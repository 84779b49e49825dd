import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';

import { describe, expect, it } from 'vitest';

import { REJECTED_FIELDS } from '../../src/http/rejected-fields.ts';
import { BILLED_FIELDS, GOOGLE_MEMBERS } from '../../src/http/billed-fields.ts';
import { PRESET_FEES } from '../../src/catalog/preset-fees.ts';
import { PRESET_FIELDS } from '../../src/catalog/preset-fields.ts';
import { PRESETS } from '../../src/catalog/presets.ts';

const SRC = new URL('../../src', import.meta.url).pathname;

/** The ground floor: what any part may import. */
const GROUND = ['async', 'platform', 'errors', 'json', 'ledger/contract'];
const STORES = ['ledger/contract', 'ledger/engine', 'async', 'platform'];

/** Part of src → the parts it may import: the drawing in ARCHITECTURE.md, as data. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  async: [],
  platform: [],
  errors: [],
  json: [],
  'ledger/contract': [],
  'ledger/engine': ['ledger/contract'],
  'ledger/stores/memory': STORES,
  'ledger/stores/sqlite': STORES,
  'ledger/stores/redis': STORES,
  'ledger/stores': ['ledger/contract', 'ledger/stores/memory', 'ledger/stores/redis', 'ledger/stores/sqlite'],
  'ledger/reliability': ['ledger/contract', 'async', 'platform'],
  'ledger/operations': ['ledger/contract', 'ledger/engine', 'async', 'platform'],
  metering: GROUND,
  observability: ['metering', ...GROUND],
  'observability/opentelemetry': ['observability'],
  'observability/prometheus': ['observability'],
  'request-log': ['observability', 'metering', ...GROUND],
  webhooks: ['observability', 'ledger/reliability', ...GROUND],
  options: ['observability', 'metering', ...GROUND],
  http: ['options', 'metering', ...GROUND],
  keys: ['http', 'options', 'metering', 'ledger/engine', 'ledger/operations', ...GROUND],
  catalog: ['http', 'options', 'metering', ...GROUND],
  upstream: ['catalog', 'http', 'options', 'observability', 'metering', ...GROUND],
  billing: ['keys', 'catalog', 'http', 'options', 'observability', 'metering', 'ledger/engine', ...GROUND],
  endpoints: [
    'billing',
    'keys',
    'catalog',
    'upstream',
    'http',
    'options',
    'observability',
    'request-log',
    'metering',
    'ledger/operations',
    ...GROUND,
  ],
  page: ['client'],
  'admin/page': ['page', 'client'],
  'account/page': ['page', 'client'],
  client: [],
  adapters: ['http'],
  router: [
    'adapters',
    'endpoints',
    'billing',
    'keys',
    'catalog',
    'upstream',
    'http',
    'options',
    'observability',
    'request-log',
    'metering',
    'ledger/stores',
    'ledger/reliability',
    'ledger/operations',
    ...GROUND,
  ],
  'json-api': ['adapters', 'keys', 'http', 'options', 'observability', 'request-log', 'metering', ...GROUND],
  account: [
    'json-api',
    'router',
    'catalog',
    'keys',
    'http',
    'request-log',
    'ledger/engine',
    'ledger/operations',
    ...GROUND,
  ],
  admin: [
    'json-api',
    'router',
    'keys',
    'http',
    'options',
    'observability',
    'request-log',
    'ledger/operations',
    ...GROUND,
  ],
  cli: ['platform', 'cli/commands', 'cli/config', 'cli/terminal', 'ledger/contract', 'ledger/stores'],
  'cli/commands': [
    'platform',
    'cli/config',
    'cli/terminal',
    'client',
    'keys',
    'request-log',
    'metering',
    'ledger/contract',
    'ledger/operations',
  ],
  'cli/config': ['json', 'options', 'catalog', 'upstream'],
  'cli/demo': ['router', 'cli/init', 'cli/serve', 'options', 'async'],
  'cli/terminal': ['platform'],
  'cli/init': ['cli/config', 'catalog', 'options', 'keys', 'ledger/contract', 'ledger/stores'],
  'cli/serve': ['router', 'admin', 'cli/config', 'cli/terminal', 'options', 'observability', ...GROUND],
  'cli/check': [
    'router',
    'upstream',
    'cli/config',
    'catalog',
    'http',
    'options',
    'metering',
    'ledger/stores',
    ...GROUND,
  ],
  testing: [],
};

/** Public entry → the parts whose names it exports. An entry holds no logic. */
const ENTRIES: Readonly<Record<string, readonly string[]>> = {
  'account.ts': ['platform', 'account', 'json-api'],
  'admin.ts': ['platform', 'admin', 'json-api'],
  'cli.ts': ['platform', 'cli'],
  'client.ts': ['client'],
  'fastify.ts': ['platform', 'adapters'],
  'hono.ts': ['platform', 'adapters'],
  'index.ts': [
    'platform',
    'router',
    'endpoints',
    'billing',
    'adapters',
    'keys',
    'catalog',
    'options',
    'observability',
    'request-log',
    'metering',
    'errors',
    'ledger/contract',
    'ledger/operations',
    'ledger/stores/memory',
    'ledger/stores/redis',
    'ledger/stores/sqlite',
  ],
  'koa.ts': ['platform', 'adapters'],
  'next.ts': ['platform', 'adapters'],
  'opentelemetry.ts': ['platform', 'observability/opentelemetry'],
  'prices.ts': ['platform', 'catalog'],
  'prometheus.ts': ['platform', 'observability/prometheus'],
  'testing.ts': ['platform', 'testing'],
  'undici.ts': ['platform', 'upstream', 'options'],
  'webhooks.ts': ['platform', 'webhooks'],
};

/** Package → the only files that may name it, or the folder (`admin/`); one that isn't here may be named by none. */
const DOOR: Readonly<Record<string, readonly string[]>> = {
  '@opentelemetry/api': [
    'observability/opentelemetry/opentelemetry-hooks.ts',
    'observability/opentelemetry/spans.ts',
    'observability/opentelemetry/instruments.ts',
  ],
  'http-proxy-middleware': ['upstream/transport/http-proxy-transport.ts'],
  undici: [
    'upstream/transport/load-undici.ts',
    'upstream/transport/undici-clients.ts',
    'upstream/transport/undici-request.ts',
  ],
  ioredis: ['ledger/stores/redis/ioredis.ts'],
  'lru-cache': [
    'keys/authenticator.ts',
    'catalog/request-prices.ts',
    'catalog/catalog.ts',
    'catalog/model-list.ts',
    'catalog/wildcards.ts',
    'upstream/capacity.ts',
    'upstream/conversations.ts',
    'upstream/provider-keys.ts',
    'upstream/provider-words.ts',
    'ledger/stores/redis/redis-keys.ts',
    'ledger/stores/sqlite/sqlite-accounts.ts',
  ],
  yaml: ['cli/init/litellm/litellm.ts'],
  '@pydantic/genai-prices': ['catalog/genai-prices.ts'],
  'next/server.js': ['adapters/next.ts'],
  'node:sqlite': ['ledger/stores/sqlite/sqlite-store.ts'],
  preact: ['page/', 'admin/page/', 'account/page/'],
  'preact/hooks': ['page/', 'admin/page/', 'account/page/'],
  valibot: ['json-api/', 'admin/', 'account/'],
  '@valibot/to-json-schema': ['json-api/openapi.ts'],
};

/** The files with timers of their own, and what those are for. A wait for another process is a `Timeout` of `async/`. */
const TIMERS: Readonly<Record<string, string>> = {
  'page/polling.ts': 'refreshes a page',
  'async/timeout.ts': 'the wait itself',
  'async/timer-wheel.ts': 'timeouts of attempts, and leases',
  'upstream/model-discovery.ts': 'asks for the lists again',
  'upstream/waiting-line.ts': 'looks again for room',
  'billing/adaptive-hold.ts': 'pauses between two tries',
  'billing/top-ups.ts': 'pauses between two tries',
  'cli/commands/plans.ts': 'lets gateways write what they had of a deleted account',
  'cli/demo/parrot/completion.ts': 'pauses between two tokens',
  'http/stream-heartbeat.ts': 'breaks the silence of a stream',
  'ledger/operations/maintenance.ts': 'runs what is due',
  'ledger/stores/redis/redis-connection.ts': 'pauses between two tries',
  'ledger/stores/redis/redis-durability.ts': 'closes an idle connection',
  'ledger/stores/redis/waits.ts': 'as async/timeout.ts, for many waits',
  'ledger/reliability/retry-queue.ts': 'pauses between two tries',
  'ledger/reliability/outbox.ts': 'writes and syncs its file',
  'ledger/reliability/rollback-repair.ts': 'looks after accounts',
  'ledger/reliability/store-caller.ts': 'tells that the store is back',
  'ledger/stores/sqlite/sqlite-queue.ts': 'pauses between two tries, and what counts of them',
  'ledger/stores/sqlite/sqlite-session.ts': 'pauses between two tries',
  'router/routing-changes.ts': 'reads what operators have changed',
  'observability/opentelemetry/spans.ts': 'ends a span without its charge',
  'testing/script.ts': 'pauses of a fake provider',
  'request-log/request-log.ts': 'writes and trims from time to time',
  'webhooks/queue.ts': 'pauses between two tries',
  'upstream/transport/agents.ts': 'ends the timeout of an idle connection',
  'upstream/transport/http2-carrier.ts': 'closes an idle connection',
  'upstream/fleet-sync.ts': 'reports to the fleet',
  'upstream/failover.ts': 'pauses between two tries',
  'upstream/transport/warm-connections.ts': 'pauses between two tries',
};

/** Loaded by the command that wants it, when it does, types aside: the ledger's commands start without the router. */
const LATE: Readonly<Record<string, readonly string[]>> = {
  'cli/commands': ['cli/check', 'cli/demo', 'cli/init', 'cli/serve'],
};

/** What is wrong with the imports of a file; empty when nothing is. */
function wrongImports(file: string, source: string): string[] {
  const wrong: string[] = [];
  for (const { specifier, isLate } of specifiers(source)) {
    if (specifier.startsWith('.')) {
      const imported = part(posix.join(posix.dirname(file), specifier));
      if (isLate && LATE[part(file)]?.includes(imported)) continue;
      const allowed = MAY_IMPORT[part(file)] ?? ENTRIES[file];
      if (imported in ENTRIES) wrong.push(`${file} imports the public entry ${imported}`);
      else if (imported !== part(file) && !allowed?.includes(imported)) {
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

/** The longest folder with a rule that a file is in; a public entry is its own part. */
function part(file: string): string {
  for (let folder = posix.dirname(file); folder !== '.'; folder = posix.dirname(folder)) {
    if (folder in MAY_IMPORT) return folder;
  }
  return file;
}

/** The files of src that import each other in a circle, imports of types included; empty where there is none. */
function circleIn(imports: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const done = new Set<string>();
  const path: string[] = [];
  const visit = (file: string): readonly string[] => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return [];
    path.push(file);
    for (const imported of imports.get(file) ?? []) {
      const circle = visit(imported);
      if (circle.length > 0) return circle;
    }
    path.pop();
    done.add(file);
    return [];
  };
  for (const file of imports.keys()) {
    const circle = visit(file);
    if (circle.length > 0) return circle;
  }
  return [];
}

/** The files of src that a file imports. */
function importedBy(file: string, source: string): string[] {
  return specifiers(source)
    .filter(({ specifier }) => specifier.startsWith('.'))
    .map(({ specifier }) => posix.join(posix.dirname(file), specifier));
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
    expect(files.filter((file) => isTimer.test(read(file))).toSorted()).toEqual(
      Object.keys(TIMERS).toSorted(),
    );
  });

  it('has a rule for each of its parts, and nothing but public entries in its root', () => {
    const parts = new Set(files.map(part));
    expect([...parts].toSorted()).toEqual([...Object.keys(MAY_IMPORT), ...Object.keys(ENTRIES)].toSorted());
  });

  it('has no circle of files', () => {
    expect(circleIn(new Map(files.map((file) => [file, importedBy(file, read(file))])))).toEqual([]);
  });

  it.each(Object.keys(ENTRIES).filter((file) => file !== 'cli.ts'))(
    '%s only exports what is elsewhere',
    (file) => {
      const source = read(file).replace(/\/\*\*.*?\*\//gs, '');
      const check = "import './platform/require-node.ts';\n";
      // It runs in browsers too.
      expect(source.includes(check)).toBe(file !== 'client.ts');
      expect(
        source
          .replace(check, '')
          .replace(/\bexport\b[^;]*\bfrom '[^']+';/g, '')
          .trim(),
      ).toBe('');
    },
  );
});

describe('the rule of imports', () => {
  it.each([
    ['metering/price.ts', "import { chatCompletion } from '../endpoints/chat-completions.ts';"],
    ['metering/price.ts', "import type { Model } from '../models/model.ts';"],
    ['ledger/contract/ledger-store.ts', "export { charge } from '../../metering/price.ts';"],
    ['http/relay.ts', "const late = await import('../upstream/transport/http-proxy-transport.ts');"],
    ['http/relay.ts', 'const late = await import(`../upstream/transport/http-proxy-transport.ts`);'],
    ['http/relay.ts', "export type * from '../ledger/engine/lots.ts';"],
    ['router/routes.ts', "import '../index.ts';"],
    ['router/router.ts', "import { x } from '../index.ts';"],
    ['upstream/attempt.ts', "import { createProxyMiddleware } from 'http-proxy-middleware';"],
    ['catalog/resolve-deprecation.ts', "import type { LRUCache } from 'lru-cache';"],
    ['ledger/contract/ledger-store.ts', "import type { Redis } from 'ioredis';"],
    [
      'ledger/stores/memory/memory-store.ts',
      "const { DatabaseSync } = process.getBuiltinModule('node:sqlite');",
    ],
    ['http/relay.ts', "import type OpenAI from 'openai';"],
    ['admin.ts', "import * as v from 'valibot';"],
    ['admin/handle-request.ts', "import { money } from './page/format.ts';"],
    ['admin/page/api.ts', "import { RouterError } from '../../errors/router-error.ts';"],
    ['page/api.ts', "import { hrefOf } from '../admin/page/keys/key-address.ts';"],
    ['admin/handle-request.ts', "import { render } from 'preact';"],
    ['http/relay.ts', "import {\n  a,\n  b,\n} from 'lodash';"],
    ['cli/commands/serve.ts', "import { serve } from '../serve/serve.ts';"],
    ['cli/commands/audit.ts', "const { route } = await import('../../router/router.ts');"],
  ])('refuses %s: %s', (file, source) => {
    expect(wrongImports(file, source)).toHaveLength(1);
  });

  it('allows a command to load late what it alone needs', () => {
    expect(
      wrongImports('cli/commands/serve.ts', "const { serve } = await import('../serve/serve.ts');"),
    ).toEqual([]);
  });

  it('allows what points down, and a package in its place', () => {
    const source =
      "import { hash } from 'node:crypto';\nimport { LRUCache } from 'lru-cache';\nimport '../errors/router-error.ts';";
    expect(wrongImports('keys/authenticator.ts', source)).toEqual([]);
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

describe('the rule of circles', () => {
  it('finds one of any length', () => {
    const imports = new Map([
      ['a.ts', ['b.ts', 'd.ts']],
      ['b.ts', ['c.ts']],
      ['c.ts', ['b.ts']],
      ['d.ts', []],
    ]);
    expect(circleIn(imports)).toEqual(['b.ts', 'c.ts', 'b.ts']);
    expect(circleIn(new Map([...imports, ['c.ts', ['d.ts']]]))).toEqual([]);
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
