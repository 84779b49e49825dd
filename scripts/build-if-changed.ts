/** Builds `dist/` unless it is newer than everything that it is built from; says so, because a build takes seconds. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const SOURCES = ['src', 'test/contracts'];
const SETTINGS = ['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json'];

if (!existsSync('dist/cli.js') || newestSource() > statSync('dist/cli.js').mtimeMs) {
  console.log('Building …');
  await import('./build.ts');
}

function newestSource(): number {
  const files = SOURCES.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => !file.includes('.generated.'))
      .map((file) => join(folder, file)),
  );
  return Math.max(...[...files, ...SETTINGS].map((file) => statSync(file).mtimeMs));
}
