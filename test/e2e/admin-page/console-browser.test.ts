import axe from 'axe-core';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { StoreUnavailableError } from '../../../src/index.ts';
import { type AdminDoor, OPERATOR_TOKEN, startAdmin } from '../../helpers/admin.ts';
import { FAST_MODEL, type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody } from '../../helpers/provider.ts';
import { CHROMIUM, launchChromium } from '../helpers/chromium.ts';

if (!CHROMIUM) console.log('Skipped for want of a Chromium in /usr/bin: the console.');

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string }[];
}

const HOSTILE = '<img src=x onerror="document.title=1">';

describe.skipIf(!CHROMIUM)('the console in a browser', () => {
  let browser: Browser;
  let context: BrowserContext;
  let gateway: Gateway;
  let door: AdminDoor;
  let page: Page;
  /** What no test wants: an error of the page, or a request to somewhere else. */
  let problems: string[];

  beforeAll(async () => {
    browser = await launchChromium();
  });

  afterAll(() => browser.close());

  beforeEach(async () => {
    problems = [];
    gateway = await startGateway({
      retries: false,
      provider: { stopAt: { amount: '100.00', per: 'month' } },
      models: { 'acme/fast': { ...FAST_MODEL, strategy: 'weighted' } },
    });
    door = await startAdmin({ router: gateway.router });
    context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    context.on('request', (request) => {
      if (
        !/^(data|blob):/.test(request.url()) &&
        !request.url().startsWith(`${new URL(door.baseURL).origin}/`)
      )
        problems.push(`asked ${request.url()}`);
    });
    context.on('weberror', (error) => problems.push(error.error().message));
    page = await context.newPage();
    await page.addInitScript((token) => {
      sessionStorage.setItem('chat-completions-router-token', token);
    }, OPERATOR_TOKEN);
  });

  afterEach(async () => {
    await context.close();
    await door.close();
    await gateway.close();
    expect(problems).toEqual([]);
  });

  let loads = 0;
  /** Loads the page anew: with another fragment alone, it would be the one that is there. */
  const open = (hash: string): Promise<unknown> => {
    loads += 1;
    return page.goto(`${door.baseURL}/?${loads}${hash}`, { waitUntil: 'load' });
  };
  const rows = (id: string): ReturnType<Page['locator']> => page.locator(`#${id} tr`);

  async function ask(body: object = QUESTION): Promise<string> {
    const response = await gateway.post(body);
    await response.text();
    return response.headers.get('x-request-id') ?? '';
  }

  it('finds a request that a customer names, and shows each of its attempts', async () => {
    gateway.provider.script = answerJson('{"error":{"message":"full","code":"overloaded"}}', 503);
    const bad = await ask();
    gateway.provider.script = answerJson(completionBody());
    const good = await ask();
    await open('#/requests');
    await rows('request-rows').nth(1).waitFor();
    await expect.poll(() => rows('request-rows').count()).toBe(2);
    await page.getByLabel('Status').selectOption('5xx');
    await page.getByRole('button', { name: 'Search' }).click();
    await page.waitForURL(/status=5xx/);
    await expect.poll(() => rows('request-rows').count()).toBe(1);
    await page.locator('#find-request').fill(bad);
    await page.keyboard.press('Enter');
    await page.waitForURL(new RegExp(bad));
    await page.getByText('overloaded').waitFor();
    await expect.poll(() => page.locator('.facts').innerText()).toContain('nothing is charged');
    await open(`#/requests/${good}`);
    await page.getByText('9 in, 12 out').waitFor();
  });

  it('refunds a request once', async () => {
    const id = await ask();
    await open(`#/requests/${id}`);
    await page.getByRole('button', { name: 'Refund' }).click();
    await page.getByLabel('Reason').fill('broken answer');
    await page.getByRole('dialog').getByRole('button', { name: 'Refund' }).click();
    await page.getByRole('button', { name: 'Refunded' }).waitFor();
    expect(await gateway.router.credits.balance('acct')).toMatchObject({ balance: '5.00' });
    expect(door.audits.at(-1)).toMatchObject({ action: 'requests.refund', operator: 'ada' });
  });

  it('ejects a provider by hand, says why, and readmits it', async () => {
    await ask();
    await open('#/providers');
    await page.getByRole('button', { name: 'Eject loopback', exact: true }).click();
    await page.getByLabel('Reason').fill('wrong answers');
    await page.getByRole('dialog').getByRole('button', { name: 'Eject' }).click();
    await page
      .locator('p.notice')
      .getByText(/^Ejected by ada until it is readmitted: wrong answers$/)
      .waitFor();
    expect((await gateway.post(QUESTION)).status).toBe(503);
    await page.getByRole('button', { name: 'Readmit loopback', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Readmit' }).click();
    await page.getByRole('button', { name: 'Eject loopback', exact: true }).waitFor();
    expect((await gateway.post(QUESTION)).status).toBe(200);
  });

  it('shows what a provider has cost of what it may', async () => {
    await ask();
    await open('#/providers');
    await page.getByText('Cost this month').waitFor();
    await page.getByText(/^\$0\.0000\d+ of \$100\.00$/).waitFor();
  });

  it('sets the weight of a target, says who did, and takes it back', async () => {
    await open('#/models');
    const button = page.getByRole('button', { name: 'Set weight of acme/fast at loopback/upstream-model' });
    await button.click();
    await page.getByRole('textbox', { name: 'Weight' }).fill('-1');
    await page.getByRole('dialog').getByRole('button', { name: 'Set weight' }).click();
    await page.getByText('weight must be a number from 0 to 1000000000').waitFor();
    await page.getByRole('textbox', { name: 'Weight' }).fill(' ');
    await page.getByRole('dialog').getByRole('button', { name: 'Set weight' }).click();
    await page.getByText('Weight must be a number.').waitFor();
    await page.getByRole('textbox', { name: 'Weight' }).fill('0.5');
    await page.getByRole('dialog').getByRole('button', { name: 'Set weight' }).click();
    await page.getByText('upstream-model, weight 0.5 by ada, else 1').waitFor();
    expect(gateway.router.modelPrices()[0]?.targets[0]?.weight).toBe(0.5);
    expect(door.audits.at(-1)).toMatchObject({
      action: 'providers.weight',
      operator: 'ada',
      after: { weight: 0.5 },
    });
    await button.click();
    await page.getByRole('textbox', { name: 'Weight' }).fill('1');
    await page.getByRole('dialog').getByRole('button', { name: 'Set weight' }).click();
    await page.getByText('upstream-model, weight 1', { exact: true }).waitFor();
    // The 400 that was asked for is an error in the browser's log.
    problems.splice(0, Infinity, ...problems.filter((text) => !text.includes('status of 400')));
  });

  it('grants, adjusts, limits and freezes an account', async () => {
    await open('#/accounts');
    await page.getByRole('link', { name: 'acct' }).click();
    await page.locator('#action-grant').click();
    await page.getByLabel('Amount in USD').fill('2.50');
    await page.getByRole('dialog').getByRole('button', { name: 'Grant' }).click();
    await page.getByRole('heading', { name: '$7.50' }).waitFor();
    await page.locator('#action-adjust').click();
    await page.getByLabel('Change in USD').fill('-100');
    await page.getByLabel('Reason').fill('too much');
    await page.getByRole('dialog').getByRole('button', { name: 'Adjust' }).click();
    await page.getByRole('alert').waitFor();
    await page.getByLabel('Change in USD').fill('-1');
    await page.getByRole('dialog').getByRole('button', { name: 'Adjust' }).click();
    await page.getByRole('heading', { name: '$6.50' }).waitFor();
    await page.locator('#action-policy').click();
    await page.getByLabel('Requests a minute').fill('2');
    await page.getByLabel('Budget in USD').fill('1.00');
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByText('$1.00 a month').waitFor();
    await page.locator('#action-freeze').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Freeze' }).click();
    await page.getByText('frozen').waitFor();
    expect(await gateway.router.accounts.get('acct')).toMatchObject({
      frozen: true,
      balance: '6.50',
      policy: { requestsPerMinute: 2 },
    });
  });

  it('makes a key whose secret is shown once, and revokes it', async () => {
    await open('#/accounts/acct');
    await page.locator('#create-key').click();
    await page.getByLabel('Name').fill(HOSTILE);
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
    const secret = await page.locator('#secret').innerText();
    expect(await gateway.router.keys.find(secret)).toMatchObject([{ name: HOSTILE, state: 'active' }]);
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('button', { name: `Revoke ${HOSTILE}` }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('revoked').waitFor();
    expect(await gateway.router.keys.find(secret)).toMatchObject([{ state: 'revoked' }]);
    expect(await page.content()).not.toContain(secret);
    expect(await page.title()).not.toBe('1');
  });

  it('deletes an account only when its name is typed', async () => {
    await gateway.router.accounts.freeze('acct');
    await open('#/accounts/acct');
    await page.locator('#action-delete').click();
    await page.getByLabel('Type acct to confirm').fill('no');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('alert').waitFor();
    expect(await gateway.router.accounts.get('acct')).toBeDefined();
    await page.getByLabel('Type acct to confirm').fill('acct');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No account found.').waitFor();
    expect(await gateway.router.accounts.get('acct')).toBeUndefined();
  });

  const VIEWS = [
    '#days=7',
    '#/accounts',
    '#/accounts/acct',
    '#/keys',
    '#/keys/KEY?account=acct',
    '#/requests',
    '#/requests/ID',
    '#/providers',
    '#/models',
    '#/health',
  ];

  /** The views' addresses, of one request and one key. */
  async function addresses(): Promise<readonly string[]> {
    const id = await ask();
    const { id: key } = await gateway.router.keys.create({
      account: 'acct',
      name: 'A key with a name that is as long as the names of keys of customers are',
      budget: { amount: '10.00', per: 'month' },
    });
    return VIEWS.map((view) => view.replace('ID', id).replace('KEY', key));
  }

  it.each([360, 1280, 2560])('fits in %d px, in each view', async (width) => {
    await page.setViewportSize({ width, height: 800 });
    for (const view of await addresses()) {
      await open(view);
      await page.locator('.card').first().waitFor();
      const over = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
      expect([view, over]).toEqual([view, 0]);
    }
  });

  it.each([
    ['light', 1280],
    ['dark', 1280],
    ['light', 360],
  ] as const)('has nothing that axe finds, in %s, at %d px', async (colorScheme, width) => {
    gateway.provider.script = answerJson('{"error":{"message":"full","code":"overloaded"}}', 503);
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width, height: 800 });
    const found: object[] = [];
    const check = async (where: string): Promise<void> => {
      await page.evaluate(axe.source);
      const violations = await page.evaluate<readonly Violation[]>(
        'axe.run().then(({ violations }) => violations)',
      );
      for (const { id, nodes } of violations) found.push({ where, id, html: nodes.map(({ html }) => html) });
    };
    for (const view of await addresses()) {
      await open(view);
      await page.locator('.card').first().waitFor();
      await check(view);
    }
    await open('#/accounts/acct');
    await page.locator('#action-policy').click();
    await check('the form of the policy');
    expect(found).toEqual([]);
  });

  it('is used with a keyboard alone', async () => {
    await open('#/accounts/acct');
    await page.locator('#action-grant').focus();
    await page.keyboard.press('Enter');
    await page.keyboard.type('1.00');
    await page.keyboard.press('Escape');
    expect(await page.getByRole('dialog').count()).toBe(0);
    expect(await page.evaluate<string>('document.activeElement.id')).toBe('action-grant');
    await page.keyboard.press('Enter');
    for (let times = 0; times < 20; times++) {
      await page.keyboard.press('Escape');
      await page.keyboard.press('Enter');
    }
    await page.keyboard.type('1.00');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: '$6.00' }).waitFor();
  });

  it('keeps what it showed while the store is unavailable, and says so', async () => {
    await open('#/accounts/acct');
    await page.getByRole('heading', { name: '$5.00' }).waitFor();
    gateway.store.balance = async () => {
      throw new StoreUnavailableError('no');
    };
    await page.locator('#action-grant').click();
    await page.getByLabel('Amount in USD').fill('1.00');
    await page.getByRole('dialog').getByRole('button', { name: 'Grant' }).click();
    await page
      .locator('#notice')
      .getByText(/unavailable.*Showing data as of .* Retrying/)
      .waitFor();
    await expect.poll(() => page.getByRole('heading', { name: '$5.00' }).count()).toBe(1);
  });
});
