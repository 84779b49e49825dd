import { readFile } from 'node:fs/promises';

import axe from 'axe-core';
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { StoreUnavailableError } from '../../../src/index.ts';
import { QUESTION } from '../../helpers/gateway.ts';
import { answerJson, completionBody } from '../../helpers/provider.ts';
import { type AccountPage, type AccountPageSetup, startAccountPage } from '../helpers/account-page.ts';
import { CHROMIUM, launchChromium } from '../helpers/chromium.ts';

if (!CHROMIUM) console.log('Skipped for want of a Chromium in /usr/bin: the account page.');

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string }[];
}

const HOSTILE = '<img src=x onerror="document.title=1">';
const VIEWS = [
  '#/credits',
  '#/usage?days=7',
  '#/keys',
  '#/keys/KEY',
  '#/requests',
  '#/requests/REQUEST',
  '#/statements',
  '#/playground',
];

/** Each call of the store fails. @returns what ends this */
function takeAway(store: object): () => void {
  const names = Object.getOwnPropertyNames(Object.getPrototypeOf(store)).filter(
    (name) => Reflect.get(store, name)?.constructor.name === 'AsyncFunction',
  );
  const fail = async (): Promise<never> => {
    throw new StoreUnavailableError('no');
  };
  for (const name of names) Reflect.set(store, name, fail);
  return () => {
    for (const name of names) Reflect.deleteProperty(store, name);
  };
}

describe.skipIf(!CHROMIUM)('the account page', () => {
  let browser: Browser;
  let shown: AccountPage;

  beforeAll(async () => {
    browser = await launchChromium();
  });

  afterAll(() => browser.close());
  afterEach(() => shown.close());

  const start = async (setup: AccountPageSetup = {}): Promise<void> => {
    shown = await startAccountPage(browser, setup);
  };

  async function ask(body: object = QUESTION): Promise<string> {
    const response = await shown.gateway.post(body);
    await response.text();
    return response.headers.get('x-request-id') ?? '';
  }

  /** The addresses of all views, of an account with some history. */
  async function everyView(): Promise<string[]> {
    const { gateway } = shown;
    await gateway.router.credits.grant('acct', '2.00', { id: 'g', expiresAt: new Date(Date.now() + 9e8) });
    await gateway.router.accounts.update('acct', { requestsPerMinute: 600 });
    const request = await ask();
    await ask({ ...QUESTION, model: 'none/such' });
    const [key] = await gateway.router.keys.list('acct');
    return VIEWS.map((view) => view.replace('KEY', key?.id ?? '').replace('REQUEST', request));
  }

  it('asks for a key before it asks the API, says which keys are wrong, and shows the account of a right one', async () => {
    await start({ isSignedOut: true, account: { title: 'Acme & Sons' } });
    const { page, gateway } = shown;
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await shown.open('');
    await page.getByRole('heading', { name: 'Sign in to Acme & Sons' }).waitFor();
    expect(asked).toHaveLength(1);
    expect(shown.problems).toEqual([]);
    await page.getByLabel('API key').fill('sk-ccr-wrong');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('This API key is not valid').waitFor();
    await page.getByLabel('API key').fill(gateway.key);
    await page.keyboard.press('Enter');
    await expect.poll(() => page.locator('#balance').innerText()).toBe('$5.00');
    expect(await page.title()).toBe('Acme & Sons');
    expect(asked.join(' ') + page.url()).not.toContain(gateway.key);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.locator('#sign-in').waitFor();
    expect(await page.evaluate<number>('sessionStorage.length')).toBe(0);
  });

  it('asks again where the key has ended meanwhile, and shows nothing more', async () => {
    await start();
    const { page, gateway } = shown;
    await shown.open('#/keys');
    await page.locator('#create-key').click();
    const [key] = await gateway.router.keys.list('acct');
    await gateway.router.keys.revoke('acct', key?.id ?? '');
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
    await page.getByRole('alert').getByText('This API key is not valid').waitFor();
    expect(await page.locator('main').innerText()).not.toContain('test');
  });

  it('says that only a session of the host signs in, where keys do not', async () => {
    let account: string | undefined;
    await start({ isSignedOut: true, account: { title: 'Acme', keyHolders: 'none', whoIs: () => account } });
    const { page } = shown;
    await shown.open('');
    await page.getByText('Sign in to Acme first, then reload.').waitFor();
    account = 'acct';
    await page.reload();
    await expect.poll(() => page.locator('#balance').innerText()).toBe('$5.00');
    account = undefined;
    await page.getByRole('link', { name: 'Usage' }).click();
    await page.getByText('Sign in to Acme first, then reload.').waitFor();
    account = 'acct';
    await page.getByRole('button', { name: 'Reload' }).click();
    await page.locator('#requests').waitFor();
  });

  it('shows what is there, what ends and what is renewed, and warns of little', async () => {
    await start();
    const { page, gateway } = shown;
    await gateway.router.credits.grant('acct', '2.00', { id: 'g', expiresAt: new Date(Date.now() + 9e8) });
    await gateway.router.credits.allow('acct', { id: 'plan', amount: '3.00', per: 'month' });
    await ask();
    await shown.open('');
    await expect.poll(() => page.locator('#balance').innerText()).toMatch(/^\$(9\.99|10\.00)$/);
    await expect.poll(() => page.locator('#grant-rows tr').count()).toBe(3);
    await expect.poll(() => page.locator('#grant-rows').innerText()).toContain('Never');
    await expect.poll(() => page.locator('#allowance-rows').innerText()).toContain('$3.00 a month');
    await gateway.router.credits.allow('acct', {
      id: 'plan',
      amount: '3.00',
      per: 'month',
      until: new Date('2020-01-31T00:00:00Z'),
    });
    await shown.open('#/credits');
    await expect
      .poll(() => page.locator('#allowance-rows').innerText())
      .toMatch(/\$3\.00\t–\tJan 3\d, 2020, /);
    expect(await page.locator('#warning').count()).toBe(0);
    await gateway.router.credits.adjust('acct', '-9.99995', { id: 'a', reason: 'test' });
    await page.reload();
    await page.locator('#warning').getByText('running low').waitFor();
    await gateway.router.accounts.freeze('acct');
    await page.reload();
    await page.locator('#warning').getByText('Your credits are safe').waitFor();
  });

  it('says how long the credits last, but not to a key that sees its own usage alone', async () => {
    await start({ isSignedOut: true });
    const { page, gateway } = shown;
    await ask();
    const limited = await gateway.router.keys.create({ account: 'acct', requestsPerMinute: 60 });
    const signIn = async (key: string): Promise<void> => {
      await page.getByLabel('API key').fill(key);
      await page.keyboard.press('Enter');
      await expect.poll(() => page.locator('#balance').innerText()).toBe('$5.00');
    };
    await shown.open('');
    await signIn(gateway.key);
    await page.getByText('at the pace of the last 7 days').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await signIn(limited.key);
    expect(await page.locator('.pace').count()).toBe(0);
    expect(asked.filter((url) => url.includes('/usage'))).toEqual([]);
  });

  it('shows usage by day, model, key and end user, and downloads it', async () => {
    await start({ gateway: { dimensions: { user: true } } });
    const { page } = shown;
    await ask({ ...QUESTION, user: HOSTILE });
    await shown.open('#/usage?days=7');
    await expect.poll(() => page.locator('#requests').innerText()).toBe('1');
    await expect.poll(() => page.locator('#models').innerText()).toContain('acme/fast');
    await expect.poll(() => page.locator('#keys').innerText()).toContain('test');
    await expect.poll(() => page.locator('#users').innerText()).toContain(HOSTILE);
    expect(await page.locator('#report').innerText()).not.toMatch(/cost|margin/i);
    await page.locator('#keys').getByRole('link', { name: 'test' }).click();
    await page.getByRole('link', { name: 'Remove the filter key' }).click();
    await page.locator('#models').getByRole('link', { name: 'acme/fast' }).click();
    await page.waitForURL(/days=7&model=acme%2Ffast$/);
    await page.getByRole('link', { name: 'Remove the filter model' }).click();
    await page.locator('#users').waitFor();
    await page.locator('#daily').focus();
    await expect
      .poll(() => page.locator('#spoken').innerText())
      .toMatch(/\$0\.000045: acme\/fast .*Requests 1/);
    const downloading = page.waitForEvent('download');
    await page.locator('#usage-csv').click();
    expect((await downloading).suggestedFilename()).toMatch(/^usage-\d{4}-\d\d-\d\d-\d{4}-\d\d-\d\d\.csv$/);
    await page.getByRole('link', { name: '30 days' }).click();
    await page.waitForURL(/days=30/);
    expect(await page.title()).not.toBe('1');
  });

  it('makes, limits, rotates, pauses and revokes a key', async () => {
    await start();
    const { page, gateway } = shown;
    const press = (name: string): Promise<void> =>
      page.getByRole('dialog').getByRole('button', { name }).click();
    await shown.open('#/keys');
    await page.locator('#create-key').click();
    await page.getByLabel('Name').fill('site');
    await page.getByLabel('Requests a minute').fill('5');
    await press('Create');
    const secret = await page.locator('#secret').innerText();
    await press('Done');
    expect(await gateway.router.keys.find(secret)).toMatchObject([{ name: 'site', requestsPerMinute: 5 }]);
    expect(await page.content()).not.toContain(secret);
    await page.getByRole('button', { name: 'Limits site' }).click();
    await page.getByLabel('Budget in USD').fill('1.00');
    await press('Save');
    await page.getByText('$1.00 a month; 5 requests a minute').waitFor();
    await page.getByRole('button', { name: 'Rotate site' }).click();
    await press('Rotate');
    expect(await page.locator('#secret').innerText()).not.toBe(secret);
    await press('Done');
    await page.getByRole('button', { name: 'Pause site' }).click();
    await press('Pause');
    await page.getByText('paused').waitFor();
    await page.getByRole('link', { name: 'site' }).click();
    await page.getByText('$1.00 left of $1.00').waitFor();
    await page.getByRole('button', { name: 'Resume site' }).click();
    await press('Resume');
    await page.getByRole('button', { name: 'Revoke site' }).click();
    await page.getByRole('dialog').getByText('can not be undone').waitFor();
    await press('Revoke');
    await page.getByText('revoked', { exact: true }).waitFor();
    expect(await gateway.router.keys.find(secret)).toMatchObject([{ state: 'revoked' }]);
  });

  it('goes on with the new secret where the key that has signed in is rotated without an overlap', async () => {
    await start();
    const { page, gateway } = shown;
    const [own] = await gateway.router.keys.list('acct');
    await shown.open(`#/keys/${own?.id}`);
    await page.getByRole('button', { name: 'Rotate' }).click();
    await page.getByLabel('Days').fill('0');
    await page.getByRole('dialog').getByRole('button', { name: 'Rotate' }).click();
    await page.getByLabel('Days').waitFor({ state: 'detached' });
    const secret = await page.locator('#secret').innerText();
    await page.getByRole('button', { name: 'Done' }).click();
    expect([secret === gateway.key, await gateway.router.keys.find(secret)]).toMatchObject([
      false,
      [{ id: own?.id, state: 'active' }],
    ]);
    await page.getByRole('link', { name: 'Credits' }).click();
    await expect.poll(() => page.locator('#balance').innerText()).toBe('$5.00');
    expect(shown.problems).toEqual([]);
  });

  it('says that a key was made whose secret got lost with the answer', async () => {
    await start();
    const { page, gateway } = shown;
    await shown.open('#/keys');
    let tries = 0;
    await page.route('**/account/keys', async (route) => {
      if (route.request().method() !== 'POST' || tries++ > 0) return route.continue();
      await route.fetch();
      return route.abort();
    });
    await page.locator('#create-key').click();
    await page.getByLabel('Name').fill('site');
    const create = page.getByRole('dialog').getByRole('button', { name: 'Create' });
    await create.click();
    await page.getByRole('alert').getByText('The server does not answer.').waitFor();
    await create.click();
    await page.getByRole('alert').getByText('the answer with the secret was lost').waitFor();
    const keys = await gateway.router.keys.list('acct');
    expect(keys.filter(({ name }) => name === 'site')).toHaveLength(1);
  });

  it('shows a holder who may only read no keys, no statements and no playground', async () => {
    await start({ account: { whoIs: () => ({ account: 'acct', name: 'bob', may: ['read'] }) } });
    await shown.open('#/keys');
    await shown.page.getByRole('heading', { name: 'Credits', exact: true }).waitFor();
    expect(await shown.page.getByRole('navigation').getByRole('link').allInnerTexts()).toEqual([
      'Credits',
      'Usage',
      'Requests',
    ]);
  });

  it('filters requests by links, and shows one without what is behind the API', async () => {
    await start();
    const { page, gateway } = shown;
    const rows = page.locator('#request-rows tr');
    const good = await ask();
    gateway.provider.script = answerJson('{"error":{"message":"full","code":"overloaded"}}', 503);
    await ask();
    await shown.open('#/requests');
    await expect.poll(() => rows.count()).toBe(2);
    await page.getByRole('link', { name: 'Failed' }).click();
    await expect.poll(() => rows.count()).toBe(1);
    await page.getByRole('link', { name: 'Last hour' }).click();
    await page.waitForURL(/status=5xx&since=1h/);
    await expect.poll(() => rows.count()).toBe(1);
    await rows.getByRole('link', { name: 'acme/fast' }).click();
    await page.getByRole('link', { name: 'Remove the filter model' }).click();
    await page.waitForURL(/#\/requests\?status=5xx&since=1h$/);
    await page.getByRole('link', { name: 'Succeeded' }).click();
    await expect.poll(() => rows.innerText()).toContain('$0.000045');
    await expect.poll(() => rows.innerText()).toMatch(new RegExp(`${good}[^]*21`));
    const downloading = page.waitForEvent('download');
    await page.locator('#requests-csv').click();
    const csv = await readFile(await (await downloading).path(), 'utf8');
    expect(csv).toMatch(/^id,created_at,key,user,.*,prompt_tokens,.*,charged,client_request_id\r\n/);
    expect(csv).toContain(`\r\n${good},`);
    expect(csv).toContain(',9,0,12,0,settled,0.000045,');
    expect(csv.split('\r\n')).toHaveLength(3);
    await rows.locator('th a').click();
    await page.waitForURL(new RegExp(good));
    await page.getByText('9 in, 12 out').waitFor();
    expect(await page.content()).not.toMatch(/loopback|upstream-model/);
  });

  it('shows a month, goes to the one before, and downloads it', async () => {
    await start();
    const { page } = shown;
    const { credits } = shown.gateway.router;
    await ask();
    await credits.allow('acct', { id: 'plan', amount: '3.00', per: 'month' });
    await credits.endAllowance('acct', 'plan', { at: 'now' });
    await shown.open('#/statements');
    await page.locator('#statement-lines').getByText('−$0.000045').waitFor();
    await page.locator('#statement-lines').getByText('−$3.00').waitFor();
    await page.locator('#entry-rows').getByText('−$3.00').waitFor();
    await expect.poll(() => page.locator('#charge-rows').innerText()).toContain('acme/fast');
    const downloading = page.waitForEvent('download');
    await page.locator('#statement-csv').click();
    expect((await downloading).suggestedFilename()).toMatch(/^statement-\d{4}-\d\d\.csv$/);
    await page.getByRole('link', { name: 'The month before' }).click();
    await page.getByText('Nothing was charged in this month.').waitFor();
  });

  it('shows this month where the address has none that is one', async () => {
    await start();
    await shown.open('#/statements/2026-13');
    const month = new Intl.DateTimeFormat('en-US', { month: 'long', year: 'numeric', timeZone: 'UTC' });
    await shown.page.getByText(month.format(Date.now()), { exact: true }).waitFor();
    expect(shown.problems).toEqual([]);
  });

  it('keeps what it showed while the store is away, and says so', async () => {
    await start();
    const { page, gateway } = shown;
    await shown.open('#/keys');
    await page.getByRole('link', { name: 'test' }).waitFor();
    gateway.store.keys = async () => {
      throw new StoreUnavailableError('no');
    };
    await page.locator('#create-key').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
    await page.getByRole('dialog').getByRole('alert').getByText('unavailable').waitFor();
    await page.keyboard.press('Escape');
    await page
      .locator('#notice')
      .getByText(/unavailable.*Showing data as of .* Retrying/)
      .waitFor();
    await expect.poll(() => page.getByRole('link', { name: 'test' }).count()).toBe(1);
  });

  it('says that it shows what is old, also where a download failed before', async () => {
    await start();
    const { page } = shown;
    await page.clock.install();
    await shown.open('#/requests');
    await page.locator('#request-rows').waitFor();
    await page.route(/requests\?/, (route) => route.abort());
    await page.locator('#requests-csv').click();
    await page.locator('#notice').getByText('The server does not answer.', { exact: true }).waitFor();
    await page.clock.fastForward('02:00');
    await page.locator('#notice').getByText('Showing data as of').waitFor();
  });

  it('keeps what each view showed while the store is away, and goes on once it is back', async () => {
    await start({ account: { onError: () => {} } });
    const { page, gateway } = shown;
    const notice = page.locator('#notice');
    const refresh = (): Promise<unknown> =>
      page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    for (const view of (await everyView()).filter((each) => each !== '#/playground')) {
      await shown.open(view);
      await page.locator('#report .card').first().waitFor();
      const before = await page.locator('#report').innerText();
      const giveBack = takeAway(gateway.store);
      await refresh();
      await notice.getByText(/unavailable.*Showing data as of .* Retrying/).waitFor();
      await expect.poll(() => page.locator('#report').innerText()).toBe(before);
      giveBack();
      await refresh();
      await notice.waitFor({ state: 'hidden' });
    }
  });

  it.each([360, 1280, 2560])('fits in %d px, in each view, with its tables', async (width) => {
    await start();
    const { page } = shown;
    await page.setViewportSize({ width, height: 800 });
    await shown.gateway.router.keys.create({
      account: 'acct',
      name: 'A name that somebody wrote as a whole sentence, which is longer than a column',
      models: ['acme/fast', `acme/${'long-'.repeat(12)}name`],
      metadata: { managed_by: 'customer' },
    });
    for (const view of await everyView()) {
      await shown.open(view);
      await page.locator('#report .card').first().waitFor();
      const over = await page.evaluate<number>(`Math.max(
        document.documentElement.scrollWidth - innerWidth,
        ...[...document.querySelector('#page').shadowRoot.querySelectorAll('.scroll:not(details *)')].map(
          (table) => table.scrollWidth - table.clientWidth,
        ),
      )`);
      expect([view, over]).toEqual([view, 0]);
    }
  });

  it.each(['light', 'dark'] as const)('has nothing that axe finds, in %s', async (colorScheme) => {
    await start();
    const { page } = shown;
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    const found: object[] = [];
    const check = async (where: string): Promise<void> => {
      await page.evaluate(axe.source);
      const violations = await page.evaluate<readonly Violation[]>(
        'axe.run().then(({ violations }) => violations)',
      );
      for (const { id, nodes } of violations) found.push({ where, id, html: nodes.map(({ html }) => html) });
    };
    for (const view of await everyView()) {
      await shown.open(view);
      await page.locator('#report .card').first().waitFor();
      await check(view);
    }
    await page.getByLabel('Message').fill('Hello');
    await page.keyboard.press('Enter');
    await page.locator('.failure').waitFor();
    await check('an answer that failed');
    await page.locator('#show-code').click();
    await check('the code');
    await shown.open('#/keys');
    await page.locator('#create-key').click();
    await check('the form of a key');
    const context = await browser.newContext({ colorScheme });
    const signedOut = await context.newPage();
    await signedOut.goto(`${shown.origin}/account`);
    await signedOut.locator('#sign-in').waitFor();
    await signedOut.evaluate(axe.source);
    expect(await signedOut.evaluate('axe.run().then(({ violations }) => violations)')).toEqual([]);
    await context.close();
    expect(found).toEqual([]);
  });

  it('is used with a keyboard alone', async () => {
    await start();
    const { page, gateway } = shown;
    await shown.open('');
    await page.locator('#balance').waitFor();
    const focused = (): Promise<string> =>
      page.evaluate<string>(
        '(() => { const { activeElement } = document.activeElement?.shadowRoot ?? document; return activeElement?.id || activeElement?.textContent || ""; })()',
      );
    const tabTo = async (name: string): Promise<void> => {
      for (let presses = 0; presses < 40 && (await focused()) !== name; presses++)
        await page.keyboard.press('Tab');
      expect(await focused()).toBe(name);
    };
    await tabTo('API keys');
    await page.keyboard.press('Enter');
    await page.locator('#create-key').waitFor();
    await tabTo('create-key');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').locator(':focus').waitFor();
    await page.keyboard.type('typed');
    await page.keyboard.press('Enter');
    await page.locator('#secret').waitFor();
    await tabTo('Done');
    await page.keyboard.press('Enter');
    expect((await gateway.router.keys.list('acct')).map(({ name }) => name)).toContain('typed');
    await page.keyboard.press('Escape');
    await page.locator('nav a').first().focus();
    await tabTo('Playground');
    await page.keyboard.press('Enter');
    await page.locator('#message').waitFor();
    gateway.provider.script = answerJson(completionBody());
    await tabTo('message');
    await page.keyboard.type('Hello');
    await page.keyboard.press('Enter');
    await page.locator('.turn').waitFor();
  });

  it('has the colors, the font and the title of its host, in light and dark', async () => {
    await start({
      account: {
        title: 'Acme',
        theme: { accent: '#7c3aed', radius: '2px' },
        darkTheme: { accent: '#c4b5fd' },
      },
    });
    const { page } = shown;
    await page.emulateMedia({ colorScheme: 'light' });
    await shown.open('#/keys');
    await page.locator('#create-key').waitFor();
    const color = (): Promise<string> =>
      page.evaluate<string>(
        "getComputedStyle(document.querySelector('#page').shadowRoot.querySelector('#create-key')).backgroundColor",
      );
    expect(await color()).toBe('rgb(124, 58, 237)');
    await page.emulateMedia({ colorScheme: 'dark' });
    expect(await color()).toBe('rgb(196, 181, 253)');
    await page.locator('#theme').click();
    expect(await color()).toBe('rgb(124, 58, 237)');
    expect(shown.problems).toEqual([]);
  });
});
