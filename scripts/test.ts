/**
 * `npm test`: the tiers `unit` and `integration`. Provides a redis-server, runs vitest, ends with its closing line.
 *
 * Further arguments go to vitest: `npm test -- test/integration/http/leaks.test.ts`.
 */
import { provideRedis } from './redis.ts';
import { runTests } from './vitest.ts';

if (!provideRedis()) process.exit(1);
process.exit(runTests(['--project=unit', '--project=integration', ...process.argv.slice(2)]));
