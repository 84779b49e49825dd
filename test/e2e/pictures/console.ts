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
  return createChatCompletionsRouter({
    store: 'memory:',
    providers: {
      azure: { baseURL: azure.baseURL, apiKey: 'sk-azure-1234567890' },
      openai: { baseURL: openai.baseURL, apiKey: 'sk-openai-0987654321' },
    },
    models: {
      'openai/gpt-5-mini': {
        targets: ['azure/gpt-5-mini', 'openai/gpt-5-mini'],
        pricing: { input: '0.25', output: '2' },
        contextWindow: 400_000,
        maxOutputTokens: 1000,
      },
    },
    hooks: { onError: () => {} },
  });
}

/** @returns the ID of the last request */
async function serveCustomers(router: ChatCompletionsRouter): Promise<string> {
  let last = '';
  for (const account of CUSTOMERS) {
    await router.credits.grant(account, '25.00', { id: 'invoice-1' });
    await router.accounts.update(account, {
      requestsPerMinute: 600,
      budget: { amount: '50.00', per: 'month' },
    });
    const { key } = await router.keys.create({ account, name: 'Production' });
    for (let n = 0; n < REQUESTS / CUSTOMERS.length; n++) {
      const messages = [{ role: 'user', content: 'Say hello' }];
      const model = n === 2 ? 'openai/gpt-6' : 'openai/gpt-5-mini';
      const response = await router.fetch(
        new Request('http://localhost/v1/chat/completions', {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body: JSON.stringify({ model, messages, stream: n % 2 === 1 }),
        }),
      );
      await response.text();
      last = response.headers.get('x-request-id') ?? '';
    }
  }
  return last;
}

/** @returns PNGs of 1280 pixels' width, by the name of the view */
export async function consoleViews(): Promise<ReadonlyMap<string, Buffer>> {
  const [azure, openai] = [await startFakeProvider(), await startFakeProvider()];
  azure.answer(failing());
  openai.answer(completion({ content: ['Hello', ' there.'], tokens: { prompt: 812, completion: 240 } }));
  const router = routerOf(azure, openai);
  const last = await serveCustomers(router);
  const admin = await startAdmin({ router });
  const browser = await launchChromium();
  const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
  await page.addInitScript((token) => {
    sessionStorage.setItem('chat-completions-router-token', token);
  }, OPERATOR_TOKEN);
  const { requests } = await router.requestLog.search({ limit: 500 });
  const failedOver = requests.find(({ attempts }) => attempts.length > 1)?.id ?? last;
  const pictures = new Map<string, Buffer>();
  for (const [name, hash] of [
    ['accounts', '#/accounts'],
    ['account', '#/accounts/globex'],
    ['requests', '#/requests'],
    ['request', `#/requests/${failedOver}`],
    ['providers', '#/providers'],
  ] as const) {
    pictures.set(name, await pictureOf(page, `${admin.baseURL}/${hash}`));
  }
  await browser.close();
  await admin.close();
  await router.close();
  await azure.close();
  await openai.close();
  return pictures;
}

async function pictureOf(page: Page, url: string): Promise<Buffer> {
  await page.goto(url);
  await page.locator('.card').first().waitFor();
  await page.evaluate('document.activeElement?.blur()');
  return page.screenshot({ animations: 'disabled' });
}
