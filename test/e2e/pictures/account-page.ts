/** Pictures of the account page: a customer with a month of usage, some keys, and a chat in the playground. */
import type { Browser, Page } from 'playwright-core';

import { type ChatCompletionsRouter, createChatCompletionsRouter } from '../../../src/index.ts';
import { completion, type FakeProvider, startFakeProvider } from '../../../src/testing.ts';
import { KEY_NAME, mountWithAccount } from '../helpers/account-page.ts';
import { launchChromium } from '../helpers/chromium.ts';
import { makeLedger } from './usage-page.ts';

const DAY_MS = 86_400_000;
const ACCOUNT = 'wonka';
const ANSWER = [
  'Tides are the rise and fall of the sea. ',
  'The Moon pulls the ocean on its near side towards it, and leaves a second bulge on the far side; ',
  'the Earth turns under both, so that most coasts have two high tides a day.',
];

async function routerOf(provider: FakeProvider): Promise<ChatCompletionsRouter> {
  provider.answer(completion({ content: ANSWER, tokens: { prompt: 41, completion: 62 } }));
  return createChatCompletionsRouter({
    store: await makeLedger(),
    providers: { openai: { baseURL: provider.baseURL, apiKey: 'sk-openai-0987654321' } },
    models: {
      'openai/gpt-5-mini': {
        targets: ['openai/gpt-5-mini'],
        pricing: { input: '0.25', output: '2' },
        contextWindow: 400_000,
        maxOutputTokens: 1000,
      },
    },
    hooks: { onError: () => {} },
  });
}

interface Customer {
  /** The API key that signs in. */
  readonly key: string;
  /** The ID of a key with limits. */
  readonly limited: string;
  /** The ID of a request. */
  readonly request: string;
}

async function makeCustomer(router: ChatCompletionsRouter): Promise<Customer> {
  await router.credits.grant(ACCOUNT, '25.00', {
    id: 'promotion',
    expiresAt: new Date(Date.now() + 21 * DAY_MS),
  });
  await router.credits.allow(ACCOUNT, { id: 'team-plan', amount: '50.00', per: 'month' });
  const limits = {
    budget: { amount: '20.00', per: 'month' },
    requestsPerMinute: 60,
    metadata: { managed_by: 'customer' },
  } as const;
  const { key } = await router.keys.create({ account: ACCOUNT, name: 'Website' });
  const bot = await router.keys.create({ account: ACCOUNT, name: 'Support bot', ...limits });
  const old = await router.keys.create({ account: ACCOUNT, name: 'Old script' });
  await router.keys.revoke(ACCOUNT, old.id);
  let request = '';
  for (let n = 0; n < 12; n++) {
    const model = n === 4 ? 'openai/gpt-6' : 'openai/gpt-5-mini';
    const response = await router.fetch(
      new Request('http://localhost/v1/chat/completions', {
        method: 'POST',
        headers: {
          authorization: `Bearer ${n % 3 === 1 ? bot.key : key}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }], stream: n % 2 === 1 }),
      }),
    );
    await response.text();
    if (response.ok) request = response.headers.get('x-request-id') ?? '';
  }
  return { key, limited: bot.id, request };
}

/** @returns PNGs by the name of the view; those with `dark` are dark, those with `phone` of 390 pixels' width */
export async function accountViews(): Promise<ReadonlyMap<string, Buffer>> {
  const provider = await startFakeProvider();
  const router = await routerOf(provider);
  const { key, limited, request } = await makeCustomer(router);
  const mounted = await mountWithAccount({ title: 'Acme AI' })(router);
  const { origin } = new URL(mounted.baseURL);
  const browser = await launchChromium();
  const page = await openPage(browser, key, { width: 1280, height: 800 });
  const pictures = new Map<string, Buffer>();
  const views = { key: `keys/${limited}`, request: `requests/${request}` };
  for (const view of ['credits', 'usage', 'keys', 'requests', 'statements']) {
    pictures.set(view, await pictureOf(page, `${origin}/account#/${view}`));
  }
  for (const [name, view] of Object.entries(views)) {
    pictures.set(name, await pictureOf(page, `${origin}/account#/${view}`));
  }
  pictures.set('playground', await pictureOfChat(page, `${origin}/account#/playground`));
  await page.locator('#show-code').click();
  pictures.set('code', await page.screenshot({ animations: 'disabled' }));
  await page.emulateMedia({ colorScheme: 'dark' });
  pictures.set('usage-dark', await pictureOf(page, `${origin}/account#/usage`));
  const visitor = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await visitor.goto(`${origin}/account`);
  await visitor.locator('#sign-in').waitFor();
  pictures.set('sign-in', await visitor.screenshot({ animations: 'disabled' }));
  const phone = await openPage(browser, key, { width: 390, height: 800 });
  pictures.set('credits-phone', await pictureOf(phone, `${origin}/account#/credits`));
  pictures.set('requests-phone', await pictureOf(phone, `${origin}/account#/requests`));
  await browser.close();
  await mounted.close();
  await router.close();
  await provider.close();
  return pictures;
}

async function openPage(
  browser: Browser,
  key: string,
  viewport: { width: number; height: number },
): Promise<Page> {
  const page = await browser.newPage({ viewport, colorScheme: 'light' });
  await page.addInitScript(
    ([name = '', secret = '']) => sessionStorage.setItem(name, secret),
    [KEY_NAME, key],
  );
  return page;
}

async function pictureOf(page: Page, url: string): Promise<Buffer> {
  await page.goto('about:blank');
  await page.goto(url);
  await page.locator('#report .card').first().waitFor();
  return page.screenshot({ animations: 'disabled' });
}

async function pictureOfChat(page: Page, url: string): Promise<Buffer> {
  await page.goto(url);
  await page.getByLabel('System prompt').fill('Explain it to a ten-year-old, in three sentences.');
  await page.getByLabel('Message').fill('Why are there tides?');
  await page.keyboard.press('Enter');
  await page.locator('.charge').waitFor();
  await page.getByLabel('Message').blur();
  return page.screenshot({ animations: 'disabled' });
}
