/**
 * How long the first view of the console takes with 10,000 accounts and a million logged requests:
 * `npm run bench:console -- [STORE URL]`. The store must be empty; without a URL it is a SQLite file in a temporary folder.
 *
 * It needs a Chromium. Each view is opened three times in a new browser context, until its first row or fact is there.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { type ChatCompletionsRouter, createChatCompletionsRouter } from '../src/index.ts';
import { openStore, requestLogOf } from '../src/ledger/stores/open-store.ts';
import { completion, type FakeProvider, startFakeProvider } from '../src/testing.ts';
import { launchChromium } from '../test/e2e/helpers/chromium.ts';
import { OPERATOR_TOKEN, startAdmin } from '../test/helpers/admin.ts';

const ACCOUNTS = 10_000;
const LOGGED = 1_000_000;
const AT_ONCE = 50;
const LOG_DAYS = 6;
const MODELS = ['acme/fast', 'acme/large'];

const folder = mkdtempSync(join(tmpdir(), 'ccr-console-'));
const url = process.argv[2] ?? `sqlite:${folder}/credits.db`;

function routerOf(provider: FakeProvider): ChatCompletionsRouter {
  const model = { targets: ['acme/model'], pricing: { input: '0.3', output: '2.4' }, maxOutputTokens: 1000 };
  return createChatCompletionsRouter({
    store: url,
    providers: { acme: { baseURL: provider.baseURL, apiKey: 'sk-acme' } },
    models: Object.fromEntries(MODELS.map((id) => [id, model])),
  });
}

const accountOf = (n: number): string => `customer-${String(n % ACCOUNTS).padStart(5, '0')}`;

/** Gives an account credits, a key, and a request of each model. */
async function seedAccount({ credits, keys, fetch }: ChatCompletionsRouter, account: string): Promise<void> {
  await credits.grant(account, '25.00', { id: 'welcome' });
  const { key } = await keys.create({ account, name: 'Production' });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  for (const model of MODELS) {
    const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] });
    const asked = new Request('http://localhost/v1/chat/completions', { method: 'POST', headers, body });
    await (await fetch(asked)).text();
  }
}

/** Fills the log with copies of the rows that are there, over some days. */
async function seedLog(): Promise<void> {
  const store = openStore(url);
  const log = requestLogOf(store);
  const samples = await log.page({ from: '0', before: '~', limit: 500 });
  const first = Date.now() - LOG_DAYS * 86_400_000;
  for (let n = 0; n < LOGGED; n += 2000) {
    const rows = Array.from({ length: 2000 }, (_, i) => {
      const time = Math.floor(first + ((n + i) * LOG_DAYS * 86_400_000) / LOGGED);
      const id = `${time.toString(36).padStart(9, '0')}seed${(n + i).toString(36).padStart(6, '0')}`;
      return { id, account: accountOf(n + i), json: samples[(n + i) % samples.length]?.json ?? '{}' };
    });
    await log.append(rows);
  }
  await store.close();
}

/** The address of each view, and what it has once it shows something. */
async function viewsOf(router: ChatCompletionsRouter): Promise<readonly (readonly [string, string])[]> {
  const [key] = await router.keys.list(accountOf(42));
  const { requests } = await router.requestLog.search({ limit: 1 });
  return [
    ['#days=30', '#accounts-rows'],
    ['#/accounts', '#account-rows tr'],
    [`#/accounts/${accountOf(42)}`, '#journal-rows tr'],
    [`#/keys/${key?.id}?account=${accountOf(42)}`, '.facts dd'],
    ['#/requests', '#request-rows tr'],
    [`#/requests?account=${accountOf(42)}`, '#request-rows tr'],
    ['#/requests?status=5xx', '#request-rows tr'],
    [`#/requests/${requests[0]?.id}`, '.facts dd'],
    ['#/providers', '.card'],
    ['#/models', '#model-rows tr'],
    ['#/health', '.facts dd'],
  ];
}

const provider = await startFakeProvider();
provider.answer(completion({ content: ['Hello', ' there.'], tokens: { prompt: 812, completion: 240 } }));
const seeding = routerOf(provider);
for (let n = 0; n < ACCOUNTS; n += AT_ONCE) {
  await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => seedAccount(seeding, accountOf(n + i))));
}
await seeding.close();
await seedLog();
const router = routerOf(provider);
const admin = await startAdmin({ router });
const browser = await launchChromium();
for (const [hash, sign] of await viewsOf(router)) {
  const times: number[] = [];
  for (let n = 0; n < 3; n++) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    await page.addInitScript((token) => {
      sessionStorage.setItem('chat-completions-router-token', token);
    }, OPERATOR_TOKEN);
    const startedAt = performance.now();
    await page.goto(`${admin.baseURL}/${hash}`, { waitUntil: 'commit' });
    await page.locator(sign).first().waitFor();
    times.push(Math.round(performance.now() - startedAt));
    await context.close();
  }
  console.log(`${hash.padEnd(44)} ${times.map((ms) => `${ms} ms`).join(', ')}`);
}
await browser.close();
await admin.close();
await router.close();
await provider.close();
rmSync(folder, { recursive: true });
