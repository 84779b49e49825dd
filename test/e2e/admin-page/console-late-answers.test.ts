import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import type { AdminRequest, Operator } from '../../../src/admin.ts';
import { OPERATOR_TOKEN } from '../../helpers/admin.ts';
import { QUESTION } from '../../helpers/gateway.ts';
import { CHROMIUM, launchChromium } from '../helpers/chromium.ts';
import { type Console, startConsole } from '../helpers/console.ts';

if (!CHROMIUM) console.log("Skipped for want of a Chromium in /usr/bin: the console's late answers.");

describe.skipIf(!CHROMIUM)('the console, where something comes late', () => {
  let browser: Browser;
  let shown: Console;
  let operator: Operator | string | undefined;
  let accepted: string;

  beforeAll(async () => {
    browser = await launchChromium();
  });

  afterAll(() => browser.close());

  beforeEach(async () => {
    operator = 'ada';
    accepted = OPERATOR_TOKEN;
    const authorize = ({ headers }: AdminRequest) =>
      headers.authorization === `Bearer ${accepted}` ? operator : undefined;
    shown = await startConsole(browser, { authorize });
  });

  afterEach(() => shown.close());

  it('asks again soon after its computer has slept while it waited', async () => {
    const { page } = shown;
    const asked = Promise.withResolvers<void>();
    const slept = Promise.withResolvers<void>();
    let asks = 0;
    await page.route('**/status', async (route) => {
      asks += 1;
      if (asks > 1) return route.continue();
      asked.resolve();
      await slept.promise;
      return route.abort();
    });
    await page.clock.install();
    await shown.open('#/health');
    await asked.promise;
    await page.clock.fastForward('08:00:00');
    slept.resolve();
    await page.locator('#notice').getByText('The server does not answer.').waitFor();
    await page.clock.fastForward('02:00');
    await page.getByText('available', { exact: true }).waitFor();
  });

  it('shows what a change has made, also where an older answer comes after it', async () => {
    const { page } = shown;
    const asked = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    await page.clock.install({ time: 0 });
    await shown.open('#/accounts/acct');
    await page.getByRole('heading', { name: '$5.00' }).waitFor();
    let asks = 0;
    await page.route('**/accounts/acct', async (route) => {
      asks += 1;
      if (asks > 1) return route.continue();
      const response = await route.fetch();
      asked.resolve();
      await held.promise;
      return route.fulfill({ response });
    });
    // From now on nothing is asked by the clock.
    await page.clock.pauseAt(60_000);
    await asked.promise;
    await page.locator('#action-grant').click();
    await page.getByLabel('Amount in USD').fill('1.00');
    await page.getByRole('dialog').getByRole('button', { name: 'Grant' }).click();
    await expect.poll(async () => (await shown.gateway.router.credits.balance('acct')).balance).toBe('6.00');
    held.resolve();
    await page.getByRole('heading', { name: '$6.00' }).waitFor();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  });

  it('keeps a new token where a request with the old one is refused after it', async () => {
    const { page } = shown;
    const asked = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    await page.route('**/usage?*account%2Ckey*', async (route) => {
      if (route.request().headers()['authorization'] === `Bearer ${OPERATOR_TOKEN}`) {
        asked.resolve();
        await held.promise;
      }
      await route.continue();
    });
    await shown.open('');
    await asked.promise;
    accepted = 'another-token';
    await page.getByText('rejected this token').waitFor();
    await page.getByLabel('Token').fill('another-token');
    await page.keyboard.press('Enter');
    await page.locator('#report').waitFor();
    const refused = page.waitForResponse((response) => response.status() === 401);
    held.resolve();
    await (await refused).finished();
    await page.evaluate(
      'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))',
    );
    expect(await page.locator('#report').count()).toBe(1);
    expect(await page.evaluate('Object.values(sessionStorage)')).toEqual(['another-token']);
  });

  it('shows nothing more to an operator who may no longer read', async () => {
    const { page } = shown;
    await page.clock.install();
    await shown.open('#/accounts');
    await page.getByRole('link', { name: 'acct' }).waitFor();
    operator = { name: 'bob', may: ['keys'] };
    await page.clock.fastForward('01:01');
    await page.locator('#notice').getByText('bob has no permission to read.').waitFor();
    expect(await page.locator('main').innerText()).not.toMatch(/acct|\$5/);
  });

  it('closes no form that was opened after the one whose change is done', async () => {
    const { page } = shown;
    const held = Promise.withResolvers<void>();
    await page.route('**/accounts/acct/grants', async (route) => {
      await held.promise;
      await route.continue();
    });
    await shown.open('#/accounts/acct');
    await page.locator('#action-grant').click();
    await page.getByLabel('Amount in USD').fill('1.00');
    await page.getByRole('dialog').getByRole('button', { name: 'Grant' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    await page.locator('#action-adjust').click();
    await page.getByLabel('Reason').fill('by hand');
    held.resolve();
    await page.locator('#account-title').getByText('$6.00').waitFor();
    await page.evaluate(
      'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))',
    );
    expect(await page.getByLabel('Reason').inputValue()).toBe('by hand');
  });

  it('stays where its operator has gone while an account is made', async () => {
    const { page } = shown;
    const held = Promise.withResolvers<void>();
    await page.route('**/accounts/late/grants', async (route) => {
      await held.promise;
      await route.continue();
    });
    await shown.open('#/accounts');
    await page.getByRole('button', { name: 'New account' }).click();
    await page.getByLabel('Account ID').fill('late');
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('link', { name: 'acct' }).click();
    await page.locator('#action-grant').click();
    await page.getByLabel('Amount in USD').fill('7');
    const made = page.waitForResponse('**/accounts/late/grants');
    held.resolve();
    await (await made).finished();
    await page.evaluate(
      'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))',
    );
    expect(await page.getByLabel('Amount in USD').inputValue()).toBe('7');
    expect(page.url()).toMatch(/#\/accounts\/acct$/);
  });

  it('shows the keys that were searched last, whichever answer comes last', async () => {
    const { page, gateway } = shown;
    const held = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    await page.route('**/keys/find', async (route) => {
      if (route.request().postData()?.includes('none')) {
        asked.resolve();
        await held.promise;
      }
      await route.continue();
    });
    await shown.open('#/keys');
    const search = async (text: string): Promise<void> => {
      await page.getByLabel('Secret or ID').fill(text);
      await page.getByRole('button', { name: 'Find' }).click();
    };
    await search('none');
    await asked.promise;
    await search(gateway.key);
    await page.getByRole('link', { name: 'test' }).waitFor();
    const late = page.waitForResponse((response) => response.request().postData()?.includes('none') === true);
    held.resolve();
    await (await late).finished();
    await page.evaluate(
      'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))',
    );
    expect(await page.getByRole('link', { name: 'test' }).count()).toBe(1);
  });

  it('ejects with the form that was opened to eject, whatever happens to the provider meanwhile', async () => {
    const { page, gateway } = shown;
    await (await gateway.post(QUESTION)).text();
    await shown.open('#/providers');
    await page.getByRole('button', { name: 'Eject loopback', exact: true }).click();
    await page.getByLabel('Reason').fill('wrong answers');
    await gateway.router.providers.eject('loopback', { reason: 'by another one' });
    await page.locator('p.notice').getByText('by another one').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Eject' }).click();
    await page.locator('p.notice').getByText('wrong answers').waitFor();
  });

  it('leaves as it is what somebody else changes of a key or an account while its form is open', async () => {
    const { page, gateway } = shown;
    const { keys, accounts } = gateway.router;
    const [key] = await keys.list('acct');
    const id = key?.id ?? '';
    await keys.update('acct', id, { models: ['a,b/x'], requestsPerMinute: 60 });
    await shown.open('#/accounts/acct');
    await page.getByRole('button', { name: 'Limits test' }).click();
    await page.getByLabel('Budget in USD').fill('1.00');
    await keys.update('acct', id, { requestsPerMinute: 5 });
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(await keys.get('acct', id)).toMatchObject({
      models: ['a,b/x'],
      requestsPerMinute: 5,
      budget: { amount: '1.00', per: 'month' },
    });
    await page.locator('#action-policy').click();
    await page.getByLabel('Name').fill('Acme');
    await accounts.update('acct', { requestsPerMinute: 7, models: ['a,b/x'] });
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect((await accounts.get('acct'))?.policy).toMatchObject({
      name: 'Acme',
      requestsPerMinute: 7,
      models: ['a,b/x'],
    });
  });

  it('shows what its address says, where only the fragment changes', async () => {
    const { page } = shown;
    await shown.open('#days=7&account=acct');
    const account = page.getByLabel('Account', { exact: true });
    await expect.poll(() => account.inputValue()).toBe('acct');
    await page.getByRole('link', { name: 'Overview' }).click();
    await expect.poll(() => account.inputValue()).toBe('');
    await page.evaluate("location.hash = '#days=90&account=acct'");
    await expect.poll(() => account.inputValue()).toBe('acct');
    await page.getByRole('button', { name: '90 days', pressed: true }).waitFor();
  });
});
