/**
 * Two processes that spend from one balance, which is in a Redis Cluster.
 *
 *     npm run example -- redis-cluster
 *
 * Starts a cluster of its own, of three redis-servers, unless CREDITS_STORE names one.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createChatCompletionsRouter } from 'chat-completions-router';
import { announce, models, port, providers } from '../demo/demo.ts';
import { startCluster } from './cluster.ts';

// Whoever ends it while it starts waits until it has started, so that nothing is left running.
const ended = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);

const own = process.env['CREDITS_STORE'] === undefined ? await startCluster() : undefined;
const store = process.env['CREDITS_STORE'] ?? own?.url ?? '';

// A third process that uses the same accounts: it makes one, with a key and credits.
const router = createChatCompletionsRouter({ store, providers, models });
const apps = [startApp(port), startApp(port === 0 ? 0 : port + 1)];
try {
  const [first, second] = await Promise.all(apps.map(portOf));
  await announce(router, first ?? port);
  console.log(`  The same key and credits at http://localhost:${second}/v1\n`);
  await ended;
} finally {
  const running = apps.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
  const exits = running.map((app) => once(app, 'exit'));
  for (const app of running) app.kill('SIGTERM'); // each lets its streams end, and charges them
  await Promise.all([...exits, router.close()]);
  await own?.stop();
}

function startApp(port: number): ChildProcess {
  return fork(`${import.meta.dirname}/app.ts`, {
    env: { ...process.env, CREDITS_STORE: store, PORT: String(port) },
  });
}

async function portOf(app: ChildProcess): Promise<number> {
  const [told] = await Promise.race([once(app, 'message'), once(app, 'exit')]);
  if (app.exitCode !== null || app.signalCode !== null) throw new Error('An app did not start.');
  return Number(told);
}
