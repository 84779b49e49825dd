import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, posix } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { installPacked } from '../../helpers/packed-package.ts';

const ROOT = new URL('../../..', import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), 'ccr-package-'));
let installed: string;

/** The packed tarball, unpacked into a project of its own with the dependencies that its manifest names. */
beforeAll(() => {
  installed = installPacked(folder);
});

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

function run(file: string, source: string): string {
  writeFileSync(join(folder, file), source);
  return execFileSync(process.execPath, [file], { cwd: folder, encoding: 'utf8' });
}

const USE = `
  const router = createChatCompletionsRouter({ store: 'memory:', providers: {}, models: {} });
  console.log(typeof router, typeof router.credits.grant);
`;

/** What an entry imports only if the app has it. */
const PEERS = [
  '@opentelemetry/api',
  '@pydantic/genai-prices',
  'fast-check',
  'next',
  'openai',
  'undici',
  'vitest',
  'yaml',
];

/** Subpath → what it is for. */
const SUBPATHS = {
  admin: ['createAdminRouter'],
  client: ['AdminApiError', 'createAccountClient', 'createAdminClient'],
  fastify: ['toFastifyHandler', 'toFastifyPlugin'],
  hono: ['toHonoHandler'],
  koa: ['toKoaMiddleware'],
  next: ['toNextHandlers', 'toNextPagesHandler'],
  opentelemetry: ['openTelemetryHooks'],
  prometheus: ['createPrometheusMetrics'],
  testing: [
    'DONE',
    'chunk',
    'completion',
    'drip',
    'end',
    'error',
    'hang',
    'hangUp',
    'head',
    'html',
    'pause',
    'rateLimited',
    'raw',
    'repeat',
    'reset',
    'respond',
    'sequence',
    'startFakeProvider',
    'stream',
    'truncated',
  ],
  undici: ['undiciTransport'],
  webhooks: ['createWebhooks'],
};

describe('the packed package', () => {
  it('can be imported', () => {
    const source = `import { createChatCompletionsRouter } from 'chat-completions-router';${USE}`;
    expect(run('esm.mjs', source)).toBe('function function\n');
  });

  it('can be required', () => {
    const source = `const { createChatCompletionsRouter } = require('chat-completions-router');${USE}`;
    expect(run('cjs.cjs', source)).toBe('function function\n');
  });

  it.each(Object.entries(SUBPATHS))('has an entry for %s', (name, exported) => {
    const source = `
      import * as entry from 'chat-completions-router/${name}';
      console.log(Object.keys(entry).sort().join());`;
    expect(run(`${name}.mjs`, source)).toBe(`${exported.join()}\n`);
  });

  it('loads neither what is for tests, nor telemetry, nor the admin API and its schemas along with the router', () => {
    const source = `
      import { registerHooks } from 'node:module';
      const loaded = [];
      registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) });
      await import('chat-completions-router');
      const has = (part) => loaded.some((url) => url.includes(part));
      console.log(...['/dist/router', '/dist/testing', '/dist/prometheus', 'opentelemetry', '/dist/admin', 'valibot'].map(has));`;
    expect(run('loaded.mjs', source)).toBe('true false false false false false\n');
  });

  it.each(['nodenext', 'bundler'])(
    'has types for "moduleResolution": "%s", without those of any framework',
    (resolution) => {
      writeFileSync(
        join(folder, 'use.ts'),
        `import { createChatCompletionsRouter, type ChatCompletionsRouter } from 'chat-completions-router';
       import { createAccountRouter } from 'chat-completions-router/account';
       import { type AuditEvent, createAdminRouter } from 'chat-completions-router/admin';
       import { toFastifyPlugin } from 'chat-completions-router/fastify';
       import { toHonoHandler } from 'chat-completions-router/hono';
       import { toKoaMiddleware } from 'chat-completions-router/koa';
       import { toNextHandlers, toNextPagesHandler } from 'chat-completions-router/next';
       import { openTelemetryHooks } from 'chat-completions-router/opentelemetry';
       import { createPrometheusMetrics } from 'chat-completions-router/prometheus';
       import { completion, type FakeProvider, startFakeProvider } from 'chat-completions-router/testing';
       import { undiciTransport } from 'chat-completions-router/undici';
       export const router: ChatCompletionsRouter = createChatCompletionsRouter({
         store: 'memory:', providers: {}, models: {}, transport: undiciTransport(),
         hooks: [openTelemetryHooks({ propagate: true }), createPrometheusMetrics().hooks] });
       export const answer: Promise<Response> = router.fetch(new Request('http://127.0.0.1/v1/models'));
       export const mounts = [toFastifyPlugin(router), toHonoHandler(router), toKoaMiddleware(router)];
       export const admin = createAdminRouter(router, {
         authorize: ({ headers }) => (headers.authorization === 'Bearer secret' ? 'ada' : undefined),
         onAudit: (event: AuditEvent) => console.log(event) });
       export const account = createAccountRouter(router, { onAudit: (event: AuditEvent) => console.log(event) });
       export const { GET, POST } = toNextHandlers(router);
       export const pages = toNextPagesHandler(router);
       export const provider: Promise<FakeProvider> = startFakeProvider();
       export const script = completion({ content: ['Hel', 'lo'], dialect: 'deepseek' });`,
      );
      const compilerOptions = {
        module: resolution === 'bundler' ? 'esnext' : resolution,
        moduleResolution: resolution,
        target: 'es2023',
        lib: ['es2023'],
        strict: true,
        noEmit: true,
        types: ['node'],
        typeRoots: [join(ROOT, 'node_modules/@types')],
      };
      writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
      writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['use.ts'] }));
      const { stdout, status } = spawnSync('tsc', ['-p', folder, '--listFiles'], {
        cwd: ROOT,
        encoding: 'utf8',
      });
      expect(status, stdout).toBe(0);
      expect(stdout).not.toMatch(/node_modules\/(@types\/)?(express|fastify|hono|koa|next|openai|valibot)\//);
      expect(stdout).not.toContain('lib.dom');
    },
  );

  it.each([
    ['publint', ['--strict']],
    // `require()` of an ES module works on each Node that the package supports: what it ignores is an older TypeScript's rule.
    ['attw', ['--ignore-rules', 'cjs-resolves-to-esm', '--']],
  ])('is sound to %s', (program, args) => {
    const packed = mkdtempSync(join(folder, 'packed-'));
    const pack = ['pack', '--silent', '--ignore-scripts', '--pack-destination', packed];
    execFileSync('npm', pack, { cwd: ROOT });
    const [tarball = ''] = readdirSync(packed);
    const bin = join(ROOT, 'test/e2e/node_modules/.bin', program);
    const { status, stdout, stderr } = spawnSync(bin, [...args, join(packed, tarball)], { encoding: 'utf8' });
    expect(status, stdout + stderr).toBe(0);
  });

  it('imports only what npm installs with it, and frameworks at their own entries', () => {
    const { dependencies } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>;
    };
    const imported = new Map<string, string[]>();
    for (const file of readdirSync(join(installed, 'dist'), { recursive: true, encoding: 'utf8' })) {
      if (!/\.(js|d\.ts)$/.test(file)) continue;
      const source = readFileSync(join(installed, 'dist', file), 'utf8').replace(/\/\*\*.*?\*\//gs, '');
      for (const [, name = ''] of source.matchAll(
        /(?:\bfrom|\bimport)\s*\(?\s*['"]((?:@[\w-]+\/)?[a-z][\w.-]*)[\w./-]*['"]/g,
      )) {
        imported.set(name, [...(imported.get(name) ?? []), file]);
      }
    }
    expect([...imported.keys()].sort()).toEqual([...Object.keys(dependencies), ...PEERS].sort());
    const telemetry = imported.get('@opentelemetry/api') ?? [];
    expect(telemetry.filter((file) => !file.startsWith('observability/opentelemetry/'))).toEqual([]);
    expect(imported.get('next')).toEqual(['adapters/next.js']);
    expect(imported.get('@pydantic/genai-prices')).toEqual(['catalog/genai-prices.js']);
    const ofSuites = ['fast-check', 'openai', 'vitest'].flatMap((name) => imported.get(name));
    expect(new Set(ofSuites)).toEqual(new Set(['testing/contracts/index.js']));
  });

  it('names peers as optional only, so that npm loads the metadata of none and any version is accepted', () => {
    const { peerDependencies, peerDependenciesMeta } = JSON.parse(
      readFileSync(join(installed, 'package.json'), 'utf8'),
    ) as { peerDependencies?: object; peerDependenciesMeta: object };
    // With a range in `peerDependencies`, npm loads 66 MB for `next`, `vitest` and their own peers, optional or not.
    expect(peerDependencies).toBeUndefined();
    expect(peerDependenciesMeta).toEqual(Object.fromEntries(PEERS.map((name) => [name, { optional: true }])));
  });

  it('tells a TypeScript that reads no exports of the same types, entry by entry', () => {
    const { exports, main, types, typesVersions } = JSON.parse(
      readFileSync(join(installed, 'package.json'), 'utf8'),
    ) as {
      exports: Record<string, { types: string; default: string }>;
      main: string;
      types: string;
      typesVersions: Record<'*', Record<string, string[]>>;
    };
    const { '.': root, './package.json': _manifest, ...entries } = exports;
    expect({ types, default: main }).toEqual(root);
    expect(typesVersions).toEqual({
      '*': Object.fromEntries(Object.entries(entries).map(([name, entry]) => [name.slice(2), [entry.types]])),
    });
  });

  const bare = { PATH: process.env['PATH'] };

  /** What an import may leave behind, and a script that tells of it. */
  const LEFT = `
    const seen = () => ({
      globals: [...Object.getOwnPropertyNames(globalThis), ...Object.getOwnPropertySymbols(globalThis)].map(String).sort(),
      environment: Object.keys(process.env).sort(),
      listeners: process.eventNames().map(String).sort(),
      resources: process.getActiveResourcesInfo().sort(),
      prototypes: [Object, Array, Promise, String, Function].map((type) => Reflect.ownKeys(type.prototype).length),
    });`;

  it.each(['.', ...Object.keys(SUBPATHS)])('leaves nothing behind in a process that imports %s', (name) => {
    const specifier = posix.join('chat-completions-router', name);
    const source = `${LEFT}
      // What Next.js leaves behind is its own.
      if ('${name}' === 'next') await import('${ROOT}test/e2e/node_modules/next/server.js');
      await import('node:http').then(({ METHODS }) => METHODS);
      const before = seen();
      await import('${specifier}');
      console.log(JSON.stringify([before, seen()]));`;
    writeFileSync(join(folder, 'import.mjs'), source);
    // May read, and neither write a file nor start a process or a thread.
    const { stdout, stderr, status } = spawnSync(
      process.execPath,
      ['--permission', '--allow-fs-read=*', 'import.mjs'],
      { cwd: folder, encoding: 'utf8', env: bare, timeout: 15_000 },
    );
    expect(stderr).toBe('');
    expect(status).toBe(0);
    const [before, after] = JSON.parse(stdout) as [unknown, unknown];
    expect(after).toEqual(before);
  });

  it('serves and charges a request on memory and on SQLite, as CI tries it on macOS and Windows', () => {
    const { stdout, status } = spawnSync(process.execPath, ['test/smoke/smoke.ts'], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    expect(status, stdout).toBe(0);
  });

  it('holds what it needs and nothing else', () => {
    const parts = new Set(readdirSync(installed));
    const expected =
      'ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md LICENSE README.md SECURITY.md bench dist docs examples node_modules package.json';
    expect([...parts].sort().join(' ')).toBe(expected);
    // Its code is what was written but for the types: neither sources nor maps, which would be half of the package.
    const kinds = readdirSync(join(installed, 'dist'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name }) => name.replace(/^.*?\.(d\.ts|\w+)$/, '$1'));
    expect([...new Set(kinds)].sort()).toEqual(['d.ts', 'js']);
  });
});
