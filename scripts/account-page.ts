/** Builds `src/account/page/` as `account-page` of the package: one module for browsers, and its types. */
import { spawnSync } from 'node:child_process';
import { renameSync } from 'node:fs';
import { join } from 'node:path';

import { build } from 'vite';

const ENTRY = 'src/account/page/mount.ts';

/** Writes to the folder `built`; says whether there was no error. */
export async function buildAccountPage(built: string, tsc: string): Promise<boolean> {
  process.env['NODE_ENV'] = 'production';
  await build({
    configFile: false,
    logLevel: 'warn',
    publicDir: false,
    build: {
      lib: { entry: ENTRY, formats: ['es'], fileName: 'account-page' },
      target: 'esnext',
      outDir: built,
      emptyOutDir: false,
      rolldownOptions: { output: { comments: false } },
    },
  });
  // Its exports name their types, so that the file is compiled by itself.
  const flags =
    '--ignoreConfig --noResolve --noCheck --declaration --emitDeclarationOnly --isolatedDeclarations';
  const args = [tsc, ...flags.split(' '), '--outDir', built, ENTRY];
  const { status } = spawnSync(process.execPath, args, { stdio: 'inherit' });
  if (status === 0) renameSync(join(built, 'mount.d.ts'), join(built, 'account-page.d.ts'));
  return status === 0;
}
