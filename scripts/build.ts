/** `npm run build`: `dist/` from `src/`, with types and maps; what was there stays until the new one is complete. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

mkdirSync('.cache', { recursive: true });
const work = mkdtempSync('.cache/build-');
const built = join(work, 'dist');
const { status } = spawnSync('tsc', ['-p', 'tsconfig.build.json', '--outDir', built], { stdio: 'inherit' });
if (status === 0) {
  rmSync('dist', { recursive: true, force: true });
  renameSync(built, 'dist');
}
rmSync(work, { recursive: true, force: true });
process.exit(status ?? 1);
