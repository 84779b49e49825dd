/**
 * Starts the chat app, with the parrot as its provider and an account of its own.
 *
 *     npm run example -- next
 *
 * What you would copy is in app/ and lib/: there, `next dev` starts it.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createChatCompletionsRouter } from 'chat-completions-router';
import { startParrot } from '../../src/cli/demo/parrot/server.ts';

const NEXT = createRequire(import.meta.url).resolve('next/dist/bin/next');
const { PORT = '8787' } = process.env;
const [command = 'dev'] = process.argv.slice(2);

const parrot = await startParrot({ background: true });
const folder = mkdtempSync(join(tmpdir(), 'chat-'));
const store = `sqlite:${join(folder, 'credits.db')}`;

// The processes of a machine can share a ledger file: this one makes the account, the app charges it.
const router = createChatCompletionsRouter({ store, providers: {}, models: {} });
const { key } = await router.keys.create({ account: 'demo', name: 'chat' });
await router.credits.grant('demo', '0.25', { id: 'welcome' });
await router.close();

const next = spawn(
  process.execPath,
  [NEXT, command, import.meta.dirname, '--port', PORT, '--hostname', '127.0.0.1'],
  {
    env: {
      ...process.env,
      CREDITS_STORE: store,
      PARROT_URL: parrot.baseURL,
      SESSION_SECRET: randomBytes(32).toString('hex'),
      NEXT_TELEMETRY_DISABLED: '1',
    },
    stdio: 'inherit',
  },
);
console.log(`The key of the account, for /v1: ${key}`);

next.once('exit', (code) => {
  rmSync(folder, { recursive: true, force: true });
  process.exit(code ?? 0);
});
process.once('SIGINT', () => next.kill('SIGINT'));
process.once('SIGTERM', () => next.kill('SIGTERM'));
