/** Pictures of the console's views: two providers, one of which fails, and customers that ask them. */
import type { Page } from 'playwright-core';

import { type ChatCompletionsRouter, createChatCompletionsRouter } from '../../../src/index.ts';
import { completion, type FakeProvider, type Script, startFakeProvider } from '../../../src/testing.ts';
import { OPERATOR_TOKEN, startAdmin } from '../../helpers/admin.ts';
import { launchChromium } from '../helpers/chromium.ts';

const OVERLOADED = { error: { message: 'The engine is currently overloaded', code: 'overloaded' } };
const CUSTOMERS = ['globex', 'initech', 'northwind', 'umbrella-labs'];
const REQUESTS = 40;

/** Every third request fails. */
function failing(): Script {
  const well = completion({ content: ['Hello', ' there.'], tokens: { prompt: 812, completion: 240 } });
  let requests = 0;
  return (response, request) => {
    requests += 1;
    if (requests % 3 !== 0) return well(response, request);
    response.writeHead(503, { 'content-type': 'application/json', 'x-request-id': `req_${requests}` });
    response.end(JSON.stringify(OVERLOADED));
    return undefined;
  };
}

function routerOf(azure: FakeProvider, openai: FakeProvider): ChatCompletionsRouter {
  const mini = { cost: { input: '0.25', output: '2' }, model: 'gpt-5-mini' };
  return createChatCompletionsRouter({
    store: 'memory:',
    providers: {
      azure: {
        baseURL: azure.baseURL,
        apiKeys: ['sk-azure-1234567890', 'sk-azure-2345678901'],
        limits: { requestsPerMinute: 600, tokensPerMinute: 500_000 },
      },
      openai: {
        preset: 'openai',
        baseURL: openai.baseURL,
        apiKey: 'sk-openai-0987654321',
        limits: { requestsPerMinute: 3000, concurrentRequests: 200 },
      },
    },
    models: {
      'openai/gpt-5-mini': {
        targets: [
          { provider: 'azure', ...mini },
          { provider: 'openai', ...mini },
        ],
        aliases: ['gpt-5-mini'],
        wait: {},
        pricing: { input: '0.30', output: '2.40' },
        contextWindow: 400_000,
        maxOutputTokens: 1000,
      },
      'openai/gpt-5.2': {
        targets: [{ provider: 'openai', model: 'gpt-5.2', cost: { input: '1.75', output: '14' } }],
        pricing: { input: '2.10', output: '16.80' },
        contextWindow: 400_000,
        maxOutputTokens: 1000,
      },
      'azure/*': { targets: ['azure/*'], pricing: { input: '1', output: '8' }, maxOutputTokens: 1000 },
    },
    hooks: { onError: () => {} },
  });
}

/** Requests of each customer, of which one is for a model that isn't served, and one asks for a tool without a price. */
const ASKED = [
  { model: 'openai/gpt-5-mini' },
  { model: 'openai/gpt-5.2', stream: true },
  { model: 'openai/gpt-6' },
  { model: 'openai/gpt-5.2', web_search_options: {} },
  { model: 'openai/gpt-5-mini', stream: true },
];

async function serveCustomers(router: ChatCompletionsRouter): Promise<void> {
  for (const account of CUSTOMERS) {
    await router.credits.grant(account, '25.00', { id: 'invoice-1' });
    await router.accounts.update(account, {
      requestsPerMinute: 600,
      budget: [
        { amount: '5.00', per: 'hour' },
        { amount: '50.00', per: 'month' },
      ],
    });
    const { key } = await router.keys.create({
      account,
      name: 'Production',
      requestsPerMinute: 300,
      budget: { amount: '40.00', per: 'month' },
    });
    await router.keys.create({ account, name: 'Staging', models: ['openai/gpt-5-mini'] });
    for (let n = 0; n < REQUESTS / CUSTOMERS.length; n++) {
      const messages = [{ role: 'user', content: 'Say hello' }];
      const response = await router.fetch(
        new Request('http://localhost/v1/chat/completions', {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body: JSON.stringify({ ...ASKED[n % ASKED.length], messages }),
        }),
      );
      await response.text();
    }
  }
}

interface PictureOptions {
  /** @default 1280 */
  readonly width?: number;
  readonly colorScheme?: 'light' | 'dark';
}

/** @returns PNGs, by the name of the view */
export async function consoleViews({ width = 1280, colorScheme = 'light' }: PictureOptions = {}): Promise<
  ReadonlyMap<string, Buffer>
> {
  const [azure, openai] = [await startFakeProvider(), await startFakeProvider()];
  azure.answer(failing());
  openai.answer(completion({ content: ['Hello', ' there.'], tokens: { prompt: 812, completion: 240 } }));
  const router = routerOf(azure, openai);
  await serveCustomers(router);
  const admin = await startAdmin({ router });
  const browser = await launchChromium();
  const page = await browser.newPage({ viewport: { width, height: 720 }, colorScheme });
  await page.addInitScript((token) => {
    sessionStorage.setItem('chat-completions-router-token', token);
  }, OPERATOR_TOKEN);
  const { requests } = await router.requestLog.search({ limit: 500 });
  const failedOver = requests.find(({ attempts }) => attempts.length > 1)?.id ?? '';
  const keys = await router.keys.list('globex');
  const production = keys.find(({ name }) => name === 'Production')?.id ?? '';
  const pictures = new Map<string, Buffer>();
  for (const [name, hash] of [
    ['accounts', '#/accounts'],
    ['account', '#/accounts/globex'],
    ['key', `#/keys/${production}?account=globex`],
    ['requests', '#/requests'],
    ['request', `#/requests/${failedOver}`],
    ['providers', '#/providers'],
    ['models', '#/models'],
    ['health', '#/health'],
  ] as const) {
    await page.goto(`${admin.baseURL}/${hash}`);
    await page.locator('.card').first().waitFor();
    if (name === 'health') {
      await page.locator('#audit').click();
      await page.getByText('Verified:').waitFor();
    }
    pictures.set(name, await pictureOf(page));
  }
  await page.goto(`${admin.baseURL}/#/keys`);
  await page.getByLabel('Secret or ID').fill(production);
  await page.keyboard.press('Enter');
  await page.locator('#key-rows').waitFor();
  pictures.set('keys', await pictureOf(page));
  await browser.close();
  await admin.close();
  await router.close();
  await azure.close();
  await openai.close();
  return pictures;
}

async function pictureOf(page: Page): Promise<Buffer> {
  await page.evaluate('document.activeElement?.blur()');
  return page.screenshot({ animations: 'disabled' });
}
