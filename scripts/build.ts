/** `npm run build`: `dist/` from `src/`, with types and maps; what was there stays until the new one is complete. */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, renameSync, rmSync } from 'node:fs';

execFileSync(process.execPath, ['scripts/page.ts'], { stdio: 'inherit' });

// Beside dist/, because the maps name their sources from where they were written.
const built = mkdtempSync('.dist-');
chmodSync(built, 0o755);
const { status } = spawnSync('tsc', ['-p', 'tsconfig.build.json', '--outDir', built], { stdio: 'inherit' });
if (status === 0) {
  rmSync('dist', { recursive: true, force: true });
  renameSync(built, 'dist');
}
rmSync(built, { recursive: true, force: true });
process.exit(status ?? 1);
