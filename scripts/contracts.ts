/**
 * Builds `test/contracts/` as `testing/contracts/` of the package: one module, and its types.
 *
 * Files of `test/` become part of the module. Files of `src/` are imported from the package, so that errors and stores
 * are of the same classes as in the app; packages are imported from the app.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative, resolve, sep } from 'node:path';

import { build } from 'vite';

const FROM = 'test/contracts';
/** What the public types are in. */
const TYPED = ['index.ts', 'ledger-store.ts', 'mount.ts', 'mounted-router.ts'];
const SRC = resolve('src') + sep;

/** Writes to the folder `built`, which `src/` was built to; says whether there was no error. */
export async function buildContracts(built: string, tsc: string): Promise<boolean> {
  const folder = join(built, 'testing/contracts');
  await build({
    configFile: false,
    logLevel: 'warn',
    publicDir: false,
    // Users run all tests, and each property with its full number of runs.
    define: { 'process.env.CCR_FULL': '"1"' },
    build: {
      ssr: join(FROM, 'index.ts'),
      target: 'es2023',
      outDir: folder,
      rolldownOptions: {
        external: (id, importer = '') => resolve(importer, '..', id).startsWith(SRC),
        output: { paths: pathFromContracts },
      },
    },
  });
  return buildTypes(folder, tsc);
}

/** Where a file of `src/` is, as the built module imports it; a package stays as it is. */
function pathFromContracts(id: string): string {
  const file = resolve(id);
  if (!file.startsWith(SRC)) return id;
  return `../../${relative(SRC, file).replaceAll(sep, '/').replace(/\.ts$/, '.js')}`;
}

/** Compiles each file by itself, as all of its exports name their types. */
function buildTypes(folder: string, tsc: string): boolean {
  const flags =
    '--ignoreConfig --noResolve --noCheck --declaration --emitDeclarationOnly --isolatedDeclarations --stripInternal';
  const target = ['--module', 'nodenext', '--target', 'es2023', '--rootDir', FROM, '--outDir', folder];
  const files = TYPED.map((file) => join(FROM, file));
  const args = [tsc, ...flags.split(' '), ...target, ...files];
  const { status } = spawnSync(process.execPath, args, { stdio: 'inherit' });
  for (const file of readdirSync(folder).filter((each) => each.endsWith('.d.ts'))) {
    const types = readFileSync(join(folder, file), 'utf8');
    writeFileSync(join(folder, file), types.replaceAll(`'../../src/`, `'../../`));
  }
  return status === 0;
}
