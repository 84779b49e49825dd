/** `npm run build`: `dist/` from `src/` and `test/contracts/`, with types; what was there stays until the new one is complete. */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { buildAccountPage } from './account-page.ts';
import { buildContracts } from './contracts.ts';

execFileSync(process.execPath, ['scripts/page.ts'], { stdio: 'inherit' });

// On the file system of dist/, so that it can be renamed.
const built = mkdtempSync('.dist-');
chmodSync(built, 0o755);
// By its file: on Windows the command's name is that of a script for a shell.
const tsc = fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')));
const args = [tsc, '-p', 'tsconfig.build.json', '--outDir', built];
const { status } = spawnSync(process.execPath, args, { stdio: 'inherit' });
const isBuilt = status === 0 && (await buildContracts(built, tsc)) && (await buildAccountPage(built, tsc));
if (isBuilt) {
  rmSync('dist', { recursive: true, force: true });
  renameSync(built, 'dist');
}
rmSync(built, { recursive: true, force: true });
process.exit(isBuilt ? 0 : 1);
