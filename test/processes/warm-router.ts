/** A process that keeps connections warm, prints `warm` once they stand, and has nothing else to do. */
import { createChatCompletionsRouter } from '../../src/index.ts';

const [baseURL = '', ca = ''] = process.argv.slice(2);
const router = createChatCompletionsRouter({
  store: 'memory:',
  providers: { local: { baseURL, keepWarm: 2, ...(ca && { tls: { ca } }) } },
  models: { m: { targets: ['local/m'], pricing: 'free' } },
});
await router.ready();
await new Promise((resolve) => setTimeout(resolve, 200));
process.stdout.write('over\n');
