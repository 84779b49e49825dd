/** `npm run pictures`: makes the pictures of the README again. It needs a Chromium. */
import { spawnSync } from 'node:child_process';

import { installE2e } from './e2e-packages.ts';

installE2e();
const { status } = spawnSync(process.execPath, ['test/e2e/pictures/make.ts'], { stdio: 'inherit' });
process.exit(status ?? 1);
