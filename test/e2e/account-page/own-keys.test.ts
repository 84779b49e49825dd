import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { type AccountPage, type AccountPageSetup, startAccountPage } from '../helpers/account-page.ts';
import { CHROMIUM, launchChromium } from '../helpers/chromium.ts';

if (!CHROMIUM) console.log("Skipped for want of a Chromium in /usr/bin: a customer's keys.");

describe.skipIf(!CHROMIUM)("a customer's keys on the account page", () => {
  let browser: Browser;
  let shown: AccountPage;

  beforeAll(async () => {
    browser = await launchChromium();
  });

  afterAll(() => browser.close());
  afterEach(() => shown.close());

  const start = async (setup: AccountPageSetup): Promise<void> => {
    shown = await startAccountPage(browser, setup);
  };
  const press = (name: string): Promise<void> =>
    shown.page.getByRole('dialog').getByRole('button', { name }).click();

  it('change in what the host leaves open, and have no field for the rest', async () => {
    await start({ account: { newKeys: { markup: { factor: '1.2' }, requestsPerMinute: 60 } } });
    const { page, gateway } = shown;
    await shown.open('#/keys');
    await page.locator('#create-key').click();
    await page.getByRole('dialog').getByText('The same for all keys here: Requests a minute.').waitFor();
    await page.getByLabel('Name').fill('site');
    await page.getByLabel('Expires').fill('2031-01-31');
    await press('Create');
    await press('Done');
    await page.getByRole('button', { name: 'Limits site' }).click();
    await page.getByLabel('Budget in USD').fill('1.00');
    await press('Save');
    await page.getByText(/^\$1\.00 a month; 60 requests a minute; until Jan 3\d, 2031,/).waitFor();
    await page.getByRole('button', { name: 'Limits site' }).click();
    expect(await page.getByLabel('Tokens a minute').count()).toBe(1);
    expect(await page.getByLabel('Requests a minute').count()).toBe(0);
    await press('Cancel');
    await page.getByRole('link', { name: 'site' }).click();
    await page.getByText(/^Jan 3\d, 2031,/).waitFor();
    const [key] = (await gateway.router.keys.list('acct')).filter(({ name }) => name === 'site');
    expect(key).toMatchObject({ budget: { amount: '1.00', per: 'month' }, requestsPerMinute: 60 });
  });

  it.each([390, 1280])('fit in %d px, whatever their names are', async (width) => {
    await start({});
    const { page, gateway } = shown;
    const { id } = await gateway.router.keys.create({
      account: 'acct',
      name: 'y'.repeat(200),
      metadata: { managed_by: 'customer' },
    });
    await page.setViewportSize({ width, height: 800 });
    const tooWide = (): Promise<unknown> =>
      page.evaluate(
        `[document.documentElement, ...document.querySelector('#page').shadowRoot
          .querySelectorAll('.view-head, h1, h2, .card, .filter-bar, dialog, dialog :not(input)')]
          .filter((box) => box.scrollWidth > box.clientWidth && box.clientWidth > 0)
          .map((box) => box.outerHTML.slice(0, 80))`,
      );
    await shown.open(`#/keys/${id}`);
    await page.getByRole('button', { name: /^Limits/ }).click();
    await page.getByRole('dialog').waitFor();
    expect(await tooWide()).toEqual([]);
    for (const view of ['requests', 'usage']) {
      await shown.open(`#/${view}?key=${id}`);
      await page.getByRole('link', { name: 'Remove the filter key' }).getByText('yyy').waitFor();
      expect(await tooWide()).toEqual([]);
    }
  });

  it('are asked for again where the host takes a key that has no account here', async () => {
    await start({
      isSignedOut: true,
      gateway: {
        authenticate: (apiKey) => (apiKey === 'key-of-the-host' ? { account: 'acct' } : undefined),
      },
    });
    const { page } = shown;
    await shown.open('');
    await page.getByLabel('API key').fill('key-of-the-host');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('needs the permission read').waitFor();
    await page.getByLabel('API key').fill('sk-ccr-wrong');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('This API key is not valid').waitFor();
    expect(await page.evaluate<number>('sessionStorage.length')).toBe(0);
  });
});
