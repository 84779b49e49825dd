import { readFile } from 'node:fs/promises';

import OpenAI from 'openai';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { completion, type Script } from '../../../src/testing.ts';
import { answerJson } from '../../helpers/provider.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';
import { type AccountPage, startAccountPage } from '../helpers/account-page.ts';
import { CHROMIUM, launchChromium } from '../helpers/chromium.ts';

if (!CHROMIUM) console.log("Skipped for want of a Chromium in /usr/bin: a customer's day.");

// $1 and $3 a million tokens: 1,000 and 500 of them are 2,500,000 nano-dollars.
const WELL = completion({ content: ['Good', ' morning.'], tokens: { prompt: 1000, completion: 500 } });
const FULL = answerJson('{"error":{"message":"The engine is overloaded","code":"overloaded"}}', 503);

/** Fails where a prompt asks for it, so that each part of the day is charged or not as it is meant to be. */
const faulty: Script = (response, request) => {
  const script = String(request.body).includes('fail, please') ? FULL : WELL;
  return script(response, request);
};

describe.skipIf(!CHROMIUM)("a customer's day on the account page, over Redis and a faulty provider", () => {
  let browser: Browser;
  let redis: RedisServer;
  let shown: AccountPage;
  let page: Page;
  let secret: string;

  beforeAll(async () => {
    browser = await launchChromium();
    redis = await startRedis();
    shown = await startAccountPage(browser, {
      isSignedOut: true,
      gateway: { store: redis.url },
      account: { title: 'Acme AI' },
    });
    shown.gateway.provider.script = faulty;
    ({ page } = shown);
    await shown.open('');
  });

  afterAll(async () => {
    await shown.close();
    await redis.stop();
    await browser.close();
  });

  const go = (name: string): Promise<void> =>
    page.getByRole('navigation').getByRole('link', { name, exact: true }).click();
  const press = (name: string): Promise<void> =>
    page.getByRole('dialog').getByRole('button', { name, exact: true }).click();

  it('signs in with an API key, and sees the credits', async () => {
    await page.getByLabel('API key').fill(shown.gateway.key);
    await page.keyboard.press('Enter');
    await expect.poll(() => page.locator('#balance').innerText()).toBe('$5.00');
  });

  it('makes a key with a limit, and uses it with the official client until the limit', async () => {
    await go('API keys');
    await page.locator('#create-key').click();
    await page.getByLabel('Name').fill('robot');
    await page.getByLabel('Requests a minute').fill('2');
    await press('Create');
    secret = await page.locator('#secret').innerText();
    await press('Done');
    const client = new OpenAI({ baseURL: shown.gateway.baseURL, apiKey: secret, maxRetries: 0 });
    const ask = () =>
      client.chat.completions.create({ model: 'acme/fast', messages: [{ role: 'user', content: 'Hello' }] });
    expect((await ask()).choices[0]?.message.content).toBe('Good morning.');
    await ask();
    await expect(ask()).rejects.toThrow('429');
    await page.getByRole('link', { name: 'robot' }).click();
    await page.getByText('0 left of 2').waitFor();
  });

  it('plays in the playground, whose provider fails once', async () => {
    await go('Playground');
    await page.getByLabel('Message').fill('Good morning');
    await page.keyboard.press('Enter');
    await page.locator('.charge').getByText('$0.0025').waitFor();
    await page.getByLabel('Message').fill('Now fail, please');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('The service is busy or away at the moment.').waitFor();
    await page.getByText('Nothing was charged').waitFor();
  });

  it('finds the request that failed, and the one that was refused', async () => {
    await page.locator('.turn-foot').last().getByRole('link', { name: 'Request' }).click();
    await expect.poll(() => page.locator('.facts').innerText()).toMatch(/503[^]*Nothing/);
    await go('Requests');
    await expect.poll(() => page.locator('#request-rows tr').count()).toBe(5);
    await page.getByRole('link', { name: 'Rejected' }).click();
    await expect.poll(() => page.locator('#request-rows').innerText()).toMatch(/robot[^]*429/);
  });

  it('downloads a statement that is right', async () => {
    await go('Statements');
    await page.locator('#statement-lines').getByText('−$0.0075').waitFor();
    const downloading = page.waitForEvent('download');
    await page.locator('#statement-csv').click();
    const csv = await readFile(await (await downloading).path(), 'utf8');
    expect(csv).toContain('4.9925');
    expect(csv).toContain(',2,-0.005,');
  });

  it('revokes the key, which is refused from then on', async () => {
    await go('API keys');
    await page.getByRole('button', { name: 'Revoke robot' }).click();
    await press('Revoke');
    await page.getByText('revoked').waitFor();
    const client = new OpenAI({ baseURL: shown.gateway.baseURL, apiKey: secret, maxRetries: 0 });
    await expect(client.models.list()).rejects.toThrow('revoked');
  });

  it('sees what is left, which is what the books say', async () => {
    await go('Credits');
    await expect.poll(() => page.locator('#balance').innerText()).toBe('$4.99');
    await expect.poll(() => page.locator('.balance').innerText()).toContain('$0.0075');
    expect(await shown.gateway.router.credits.balance('acct')).toMatchObject({
      balance: '4.9925',
      held: '0.00',
    });
    // The provider's failure, which the browser logs as it logs each 503.
    expect(shown.problems).toEqual([
      'Failed to load resource: the server responded with a status of 503 (Service Unavailable)',
    ]);
  });
});
