import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

import { documentedBlock } from './documented.ts';

const AREA = new URL('../e2e/frameworks/', import.meta.url).pathname;

/**
 * Puts an app together: what `apps/<name>` has, and the lines of docs/frameworks.md that mount the router, as they are
 * but for the port and the place of the router.
 *
 * @param mounts - by file, the name of a block, or blocks and lines of code
 * @returns its folder, in which the packages of the area are found
 */
export function assembleApp(name: string, mounts: Readonly<Record<string, string>>): string {
  const folder = join(AREA, '.apps', name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const template = join(AREA, 'apps', name);
  if (existsSync(template)) cpSync(template, folder, { recursive: true });
  for (const [file, code] of Object.entries(mounts)) {
    const path = join(folder, file);
    mkdirSync(dirname(path), { recursive: true });
    const toRouter = relative(dirname(path), join(AREA, 'router.mjs'));
    writeFileSync(
      path,
      code.replaceAll('./router.ts', toRouter).replaceAll('8787', 'Number(process.env.PORT)'),
    );
  }
  return folder;
}

/** A block of docs/frameworks.md. */
export function block(name: string): string {
  return documentedBlock('frameworks.md', name);
}

/** A program of a package of the area. */
export function bin(path: string): string {
  return join(AREA, 'node_modules', path);
}
