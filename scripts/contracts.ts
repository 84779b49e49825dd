/**
 * Builds `test/contracts/` as `testing/contracts/` of the package: one module, and types.
 *
 * Its parts of `test/` are in it. What it needs of `src/` it imports from the package's other files, so that its errors
 * and stores are those of the app; packages are the app's own.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative, resolve, sep } from 'node:path';

import { build } from 'vite';

const FROM = 'test/contracts';
/** What the public types are in. */
const TYPED = ['index.ts', 'ledger-store.ts', 'mount.ts', 'mounted-router.ts'];
const SRC = resolve('src') + sep;

/** Writes it below `built`, which has what was built of `src/`; says whether it could. */
export async function buildContracts(built: string, tsc: string): Promise<boolean> {
  const folder = join(built, 'testing/contracts');
  await build({
    configFile: false,
    logLevel: 'warn',
    publicDir: false,
    // Whoever installs the package runs each test with its full number of runs.
    define: { 'process.env.CCR_FULL': '"1"' },
    build: {
      ssr: join(FROM, 'index.ts'),
      target: 'es2023',
      outDir: folder,
      rolldownOptions: {
        external: (id, importer = '') => resolve(importer, '..', id).startsWith(SRC),
        output: {
          paths: (id) => (id.startsWith(SRC) ? `../../${relative(SRC, id).replace(/\.ts$/, '.js')}` : id),
        },
      },
    },
  });
  return buildTypes(folder, tsc);
}

/** Of these files alone: each says its types by itself. */
function buildTypes(folder: string, tsc: string): boolean {
  const flags = [
    ...['--ignoreConfig', '--noResolve', '--noCheck', '--declaration', '--emitDeclarationOnly'],
    ...['--isolatedDeclarations', '--stripInternal', '--module', 'nodenext', '--target', 'es2023'],
  ];
  const files = TYPED.map((file) => join(FROM, file));
  const args = [tsc, ...flags, '--rootDir', FROM, '--outDir', folder, ...files];
  const { status } = spawnSync(process.execPath, args, { stdio: 'inherit' });
  for (const file of readdirSync(folder).filter((each) => each.endsWith('.d.ts'))) {
    const types = readFileSync(join(folder, file), 'utf8');
    writeFileSync(join(folder, file), types.replaceAll(`'../../src/`, `'../../`));
  }
  return status === 0;
}
