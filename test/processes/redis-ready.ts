/** Opens the store of a URL and prints `ready`, or why it isn't. A process, for Node reads which certificates to trust at its start. */
import { RedisStore } from '../../src/ledger/stores/redis/redis-store.ts';

const store = new RedisStore(process.argv[2] ?? '');
const outcome = await store.ready().then(
  () => 'ready',
  ({ message, cause }: Error) => (cause instanceof Error && 'code' in cause ? String(cause.code) : message),
);
console.log(outcome);
await store.close();
