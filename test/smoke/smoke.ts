/**
 * One request through the built package, with nothing but Node: `node scripts/build.ts && node test/smoke/smoke.ts`.
 *
 * CI runs it on macOS and Windows, where the other tests don't run.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

import { type ChatCompletionsRouter, createChatCompletionsRouter } from 'chat-completions-router';
import { createAdminRouter } from 'chat-completions-router/admin';
import { completion, type FakeProvider, startFakeProvider } from 'chat-completions-router/testing';

const folder = mkdtempSync(join(tmpdir(), 'ccr smoke ')); // a path with blanks
const file = `sqlite:${join(folder, 'credits.db')}`;

test.after(() => rmSync(folder, { recursive: true }));

for (const store of ['memory:', file]) {
  void test(`a request is served and charged, with the store ${store}`, async (t) => {
    const provider = await startFakeProvider();
    t.after(() => provider.close());
    const charges: string[] = [];
    const router = openRouter(store, provider, charges);
    await router.credits.grant('acme', '1.00', { id: 'welcome' });
    const { key } = await router.keys.create({ account: 'acme' });
    provider.answer(completion({ content: 'Hello.', tokens: { prompt: 10, completion: 20 } }));

    const server = createServer((request, response) => void router(request, response));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'acme/chat', messages: [{ role: 'user', content: 'Say hello.' }] }),
    });
    assert.equal(response.status, 200);
    assert.match(await response.text(), /"Hello\."/);
    server.close();
    server.closeAllConnections();
    await router.close();
    assert.deepEqual(charges, ['0.00007']); // 10 × $1 and 20 × $3 per million
  });
}

void test('a ledger file keeps its credits, for the library, the admin API and the command', async (t) => {
  const provider = await startFakeProvider();
  t.after(() => provider.close());
  const router = openRouter(file, provider);
  const admin = createAdminRouter(router, { authorize: () => 'ada' });
  const answer = await admin.fetch(new Request('http://127.0.0.1/accounts/acme'));
  assert.equal(((await answer.json()) as { balance: string }).balance, '0.99993');
  await router.close();

  const cli = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));
  const told = execFileSync(process.execPath, [cli, 'credits', 'balance', 'acme', '--store', file], {
    encoding: 'utf8',
  });
  assert.match(told, /0\.99993/);
});

function openRouter(store: string, provider: FakeProvider, charges: string[] = []): ChatCompletionsRouter {
  return createChatCompletionsRouter({
    store,
    hooks: { onSettled: ({ charged }) => charges.push(charged) },
    providers: { main: { baseURL: provider.baseURL } },
    models: {
      'acme/chat': {
        targets: ['main/chat'],
        pricing: { input: '1', output: '3' },
        maxOutputTokens: 1000,
      },
    },
  });
}
