/** `npm run docs`: serves the pages of `docs/` as the site shows them, and shows each change at once. */
import { spawnSync } from 'node:child_process';

import { installPackages } from './e2e-packages.ts';

installPackages('docs');
const args = ['run', '--silent', 'dev', '--', ...process.argv.slice(2)];
const { status } = spawnSync('npm', args, { cwd: 'docs', stdio: 'inherit' });
process.exit(status ?? 1);
