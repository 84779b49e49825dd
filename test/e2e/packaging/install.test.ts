import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const AREA = import.meta.dirname;
const CACHE = join(AREA, '../../../.cache/e2e');

/** In an empty folder with nothing but a `package.json`; packages are kept in `.cache/e2e`, npm's where npm has them. */
const MANAGERS: Readonly<Record<string, readonly string[]>> = {
  npm: [
    'npm',
    'install',
    '--ignore-scripts',
    '--omit=optional',
    '--prefer-offline',
    '--no-audit',
    '--no-fund',
  ],
  pnpm: [
    process.execPath,
    join(AREA, 'node_modules/pnpm/bin/pnpm.mjs'),
    'install',
    '--ignore-scripts',
    '--no-optional',
    '--prefer-offline',
    '--no-lockfile',
    `--store-dir=${join(CACHE, 'pnpm')}`,
  ],
  yarn: [process.execPath, join(AREA, 'node_modules/@yarnpkg/cli-dist/bin/yarn.js'), 'install'],
};

const YARN_RC = `nodeLinker: node-modules
enableScripts: false
enableTelemetry: false
enableImmutableInstalls: false
enableGlobalCache: false
npmMinimalAgeGate: 0
cacheFolder: ${JSON.stringify(join(CACHE, 'yarn'))}
# Nothing that is built for one machine: it is never run here, and large.
supportedArchitectures: { os: [none], cpu: [none], libc: [none] }
`;

/** Each version that an app may have, in as few apps as can have them. */
const APPS: readonly Readonly<Record<string, string>>[] = [
  {
    openai: '4.104.0',
    next: '14.2.35',
    express: '4.22.3',
    '@opentelemetry/api': '1.8.0',
    '@pydantic/genai-prices': '0.0.72',
    react: '18.3.1',
    'react-dom': '18.3.1',
  },
  { openai: '5.23.2', next: '15.5.28', express: '5.3.0', react: '19.3.1', 'react-dom': '19.3.1' },
  {
    openai: '6.49.0',
    next: '16.4.5',
    '@opentelemetry/api': '1.10.0',
    react: '19.3.1',
    'react-dom': '19.3.1',
  },
  { openai: '7.57.0', '@pydantic/genai-prices': '0.1.8' },
];

const folder = mkdtempSync(join(tmpdir(), 'ccr-install-'));
const tarball = join(folder, 'chat-completions-router.tgz');

beforeAll(() => {
  copyFileSync(join(CACHE, 'chat-completions-router.tgz'), tarball);
  for (const old of globSync(join(CACHE, 'yarn/chat-completions-router-*'))) rmSync(old);
});

afterAll(() => {
  rmSync(folder, { recursive: true });
});

describe.each(Object.keys(MANAGERS))('%s', (manager) => {
  it.each(APPS.map((app) => ({ app, beside: describeApp(app) })))(
    'installs the package beside $beside, without a word of peers, and it works there',
    ({ app }) => {
      const project = mkdtempSync(join(folder, `${manager}-`));
      const dependencies = { ...app, 'chat-completions-router': `file:${tarball}` };
      writeFileSync(
        join(project, 'package.json'),
        JSON.stringify({ name: 'app', private: true, type: 'module', dependencies }),
      );
      // Also where a folder above has another package manager.
      if (manager === 'yarn') {
        writeFileSync(join(project, '.yarnrc.yml'), YARN_RC);
        writeFileSync(join(project, 'yarn.lock'), '');
      }
      const [program = '', ...args] = MANAGERS[manager] ?? [];
      const { status, stdout, stderr } = spawnSync(program, args, { cwd: project, encoding: 'utf8' });
      expect(status, stdout + stderr).toBe(0);
      // Yarn's codes: a peer that is missing, that doesn't fit, and either of them somewhere below.
      expect(stdout + stderr).not.toMatch(/peer|YN0002|YN0060|YN0086/i);

      copyFileSync(join(AREA, 'installed.mjs'), join(project, 'installed.mjs'));
      const said = execFileSync(process.execPath, ['installed.mjs'], { cwd: project, encoding: 'utf8' });
      const asked = 'next' in app ? 2 : 1;
      expect(JSON.parse(said)).toEqual({
        told: Array.from({ length: asked }, () => 'Hello there.'),
        // 9 × 1,000 + 12 × 3,000 nano-dollars for each.
        charged: asked === 2 ? '0.00009' : '0.000045',
      });
    },
  );
});

function describeApp(app: Readonly<Record<string, string>>): string {
  return Object.entries(app)
    .filter(([name]) => !name.startsWith('react'))
    .map(([name, version]) => `${name} ${version}`)
    .join(', ');
}
