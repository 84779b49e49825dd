import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import type { AdminRequest, Operator } from '../../../src/admin.ts';
import { OPERATOR_TOKEN } from '../../helpers/admin.ts';
import { QUESTION } from '../../helpers/gateway.ts';
import { CHROMIUM, launchChromium } from '../helpers/chromium.ts';
import { type Console, startConsole } from '../helpers/console.ts';

if (!CHROMIUM) console.log("Skipped for want of a Chromium in /usr/bin: the console's sessions.");

describe.skipIf(!CHROMIUM)('a session of the console', () => {
  let browser: Browser;
  let shown: Console;
  let operator: Operator | string | undefined;

  beforeAll(async () => {
    browser = await launchChromium();
  });

  afterAll(() => browser.close());

  beforeEach(() => {
    operator = 'ada';
  });

  afterEach(() => shown.close());

  const start = async (isSignedOut = false): Promise<void> => {
    const authorize = ({ headers }: AdminRequest) =>
      headers.authorization === `Bearer ${OPERATOR_TOKEN}` ? operator : undefined;
    shown = await startConsole(browser, { authorize, isSignedOut });
  };

  it.each(['', '#/accounts', '#/providers'])(
    'begins without an error in the log of the browser, at %s',
    async (hash) => {
      await start(true);
      const { page, problems } = shown;
      const answers: number[] = [];
      page.on('response', (response) => answers.push(response.status()));
      await shown.open(hash);
      await page.getByText('requires a token').waitFor();
      expect(answers).toEqual([200]);
      await page.getByLabel('Token').fill(OPERATOR_TOKEN);
      await page.keyboard.press('Enter');
      await page.locator('.card:not(.sign-in)').first().waitFor();
      await page.getByText('ada', { exact: true }).waitFor();
      expect(new Set(answers)).toEqual(new Set([200]));
      expect(problems).toEqual([]);
    },
  );

  it('asks again where the token has ended meanwhile, and shows nothing more', async () => {
    await start();
    const { page } = shown;
    await shown.open('#/accounts/acct');
    await page.getByRole('heading', { name: '$5.00' }).waitFor();
    await page.locator('#action-grant').click();
    operator = undefined;
    await page.getByLabel('Amount in USD').fill('1.00');
    await page.getByRole('dialog').getByRole('button', { name: 'Grant' }).click();
    await page.getByText('rejected this token').waitFor();
    expect(await page.locator('main').innerText()).not.toMatch(/acct|\$5/);
    operator = 'ada';
    await page.getByLabel('Token').fill(OPERATOR_TOKEN);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: '$5.00' }).waitFor();
  });

  it('refuses a token that no request can have', async () => {
    await start(true);
    const { page } = shown;
    await shown.open('');
    await page.getByLabel('Token').fill('sk-abcd…wxyz');
    await page.keyboard.press('Enter');
    await page.getByText('rejected this token').waitFor();
    expect(await page.evaluate('sessionStorage.length')).toBe(0);
  });

  it('shows an operator who may only read nothing to press', async () => {
    await start();
    operator = { name: 'bob', may: ['read'] };
    const { page, gateway } = shown;
    const response = await gateway.post(QUESTION);
    await response.text();
    const id = response.headers.get('x-request-id') ?? '';
    for (const [view, sign] of [
      ['#/accounts', 'Show more'],
      ['#/accounts/acct', 'Download CSV'],
      ['#/requests', 'Search'],
      [`#/requests/${id}`, ''],
      ['#/providers', ''],
    ]) {
      await shown.open(view ?? '');
      await page.locator('.card').first().waitFor();
      const buttons = await page.locator('main button').allInnerTexts();
      expect([view, buttons]).toEqual([view, sign === '' ? [] : [sign]]);
    }
    await page.getByText('bob', { exact: true }).waitFor();
    expect(shown.problems).toEqual([]);
  });

  it.each([
    [
      ['read', 'keys'],
      ['New key', 'Download CSV'],
    ],
    [
      ['read', 'credits'],
      ['Grant', 'Adjust', 'Allowance', 'Download CSV'],
    ],
    [
      ['read', 'accounts'],
      ['Policy', 'Freeze', 'Delete', 'Download CSV'],
    ],
  ] as const)('shows one with %j what it may do with an account', async (may, wanted) => {
    await start();
    operator = { name: 'bob', may };
    await shown.gateway.router.credits.grant('bare', '1.00', { id: 'g' });
    await shown.open('#/accounts/bare');
    await shown.page.getByRole('heading', { name: '$1.00' }).waitFor();
    const buttons = await shown.page.locator('main button').allInnerTexts();
    expect(buttons.toSorted()).toEqual(wanted.toSorted());
  });

  it('says what an operator lacks whose permission was taken away meanwhile', async () => {
    await start();
    const { page } = shown;
    await shown.open('#/accounts/acct');
    await page.locator('#action-grant').click();
    operator = { name: 'bob', may: ['read'] };
    await page.getByLabel('Amount in USD').fill('1.00');
    await page.getByRole('dialog').getByRole('button', { name: 'Grant' }).click();
    await page
      .getByRole('alert')
      .getByText('bob may not do this: it needs the permission credits. Permissions: read.')
      .waitFor();
  });

  it('says so to an operator who may not read', async () => {
    await start();
    operator = { name: 'bob', may: ['keys'] };
    await shown.open('#/accounts');
    await shown.page.locator('#notice').getByText('bob has no permission to read.').waitFor();
    expect(shown.problems).toEqual([]);
  });
});
