/**
 * `npm test`: provides a redis-server, runs vitest, ends with its closing line.
 *
 * Further arguments go to vitest: `npm test -- test/integration/http/leaks.test.ts`.
 */
import { spawnSync } from 'node:child_process';

import { provideRedis } from './redis.ts';

if (!provideRedis()) process.exit(1);
const reporters = ['--reporter=default', '--reporter=./test/helpers/closing-line.ts'];
const { status } = spawnSync('vitest', ['run', ...reporters, ...process.argv.slice(2)], { stdio: 'inherit' });
process.exit(status ?? 1);
