import * as http from 'node:http';

import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';

import type { AdminRequest } from '../../../src/admin.ts';
import { OPERATOR_TOKEN } from '../../helpers/admin.ts';
import { type Gateway, listen, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody } from '../../helpers/provider.ts';
import { CHROMIUM, launchChromium } from '../helpers/chromium.ts';
import { type Console, startConsole } from '../helpers/console.ts';

if (!CHROMIUM) console.log('Skipped for want of a Chromium in /usr/bin: attacks on the console.');

/** What names say that others write. Of IDs, which have no blanks and no quotation marks, too. */
const SCRIPT = `"'><img src=x onerror="document.title='mine'"><script>document.title='mine'</script>`;
const IMAGE = "'><img/src=x/onerror=document.title=1>";
const COOKIE = 'session=of-the-operator';

describe.skipIf(!CHROMIUM)('what an attacker can do to the console, in a browser', () => {
  let browser: Browser;
  let shown: Console;

  beforeAll(async () => {
    browser = await launchChromium();
  });

  afterAll(() => browser.close());

  afterEach(() => shown.close());

  it('no name runs as a script, in any view: each is shown as it is written', async () => {
    const gateway = await startHostileGateway();
    shown = await startConsole(browser, { gateway });
    const { page, problems, open } = shown;
    const [failed] = (await gateway.router.requestLog.search({ status: '5xx' })).requests;
    const [answered] = (await gateway.router.requestLog.search({ status: '2xx' })).requests;
    const account = encodeURIComponent(IMAGE);
    const views: readonly (readonly [string, readonly string[]])[] = [
      ['#days=7', [IMAGE]],
      [`#days=7&account=${account}`, [IMAGE]],
      ['#/accounts', [IMAGE]],
      [`#/accounts/${account}`, [IMAGE, SCRIPT]],
      [`#/keys/k1?account=${account}`, [IMAGE, SCRIPT]],
      ['#/requests', [IMAGE]],
      [`#/requests?account=${account}&model=${account}&code=${account}`, ['No request found.']],
      [`#/requests/${answered?.id}`, [IMAGE, SCRIPT]],
      [`#/requests/${failed?.id}`, [IMAGE, SCRIPT]],
      ['#/providers', [SCRIPT]],
      ['#/models', [IMAGE]],
      ['#/health', []],
    ];
    for (const [view, names] of views) {
      await open(view);
      await page.locator('.card').first().waitFor();
      const missing = async (): Promise<string[]> => {
        const text = (await page.locator('body').textContent()) ?? '';
        return names.filter((name) => !text.includes(name));
      };
      await expect.poll(missing, { message: view }).toEqual([]);
      await expectHarmless(page, view);
    }
    await open(`#/accounts/${account}`);
    for (const action of ['grant', 'policy', 'delete']) {
      await page.locator(`#action-${action}`).click();
      await page.getByRole('heading', { name: IMAGE }).last().waitFor();
      await expectHarmless(page, action);
      await page.keyboard.press('Escape');
    }
    await open('#/keys');
    await page.getByLabel('Secret or ID').fill(gateway.key);
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: IMAGE }).first().waitFor();
    await expectHarmless(page, 'a found key');
    expect(problems).toEqual([]);
  });

  it('the file of a statement has no path in its name, and no formula in it', async () => {
    const gateway = await startGateway({ retries: false });
    shown = await startConsole(browser, { gateway });
    const account = '../../=1+1|"\r\n'.replaceAll(/["\r\n]/g, '');
    await gateway.router.credits.grant(account, '1.00', { id: '=1+1' });
    await shown.open(`#/accounts/${encodeURIComponent(account)}`);
    const download = shown.page.waitForEvent('download');
    await shown.page.getByRole('button', { name: 'Download CSV' }).click();
    const file = await download;
    expect(file.suggestedFilename()).toMatch(/^[^/\\]+\.csv$/);
    const chunks = await (await file.createReadStream()).toArray();
    expect(Buffer.concat(chunks).toString()).toMatch(/,'=1\+1,/);
  });

  it('a token is in no address, and no address is told to anybody', async () => {
    const asked: { readonly url: string; readonly referer: string | undefined }[] = [];
    const authorize = ({ headers }: AdminRequest) =>
      headers.authorization === `Bearer ${OPERATOR_TOKEN}` ? 'ada' : undefined;
    shown = await startConsole(browser, { authorize, isSignedOut: true });
    const { page, context, door } = shown;
    context.on('request', (request) => {
      asked.push({ url: request.url(), referer: request.headers()['referer'] });
    });
    for (const place of [
      `?token=${OPERATOR_TOKEN}`,
      `#token=${OPERATOR_TOKEN}`,
      `?access_token=${OPERATOR_TOKEN}#/accounts`,
    ]) {
      await page.goto(`${door.baseURL}/${place}`);
      await page.getByText('requires a token').waitFor();
    }
    asked.splice(0);
    await shown.open('');
    await page.getByLabel('Token').fill(OPERATOR_TOKEN);
    await page.keyboard.press('Enter');
    for (const view of ['Accounts', 'Keys', 'Requests', 'Providers', 'Models', 'Health', 'Overview']) {
      await page.getByRole('navigation').getByRole('link', { name: view }).click();
      await page.getByRole('heading', { level: 1 }).waitFor();
      await page.locator('.card').first().waitFor();
      expect(page.url()).not.toContain(OPERATOR_TOKEN);
    }
    expect(asked.length).toBeGreaterThan(8);
    expect(
      asked.filter(({ url, referer }) => url.includes(OPERATOR_TOKEN) || (referer ?? '') !== ''),
    ).toEqual([]);
    expect(await context.cookies()).toEqual([]);
    expect(await page.evaluate<number>('localStorage.length')).toBe(0);
  });

  describe('from a page of another origin, where the operator is signed in by a cookie', () => {
    let page: Page;
    let target: string;

    const start = async (document: string): Promise<void> => {
      const authorize = ({ headers }: AdminRequest) => (headers.cookie === COOKIE ? 'ada' : undefined);
      shown = await startConsole(browser, { authorize, isSignedOut: true });
      const evil = http.createServer((_, response) => {
        response.setHeader('content-type', 'text/html');
        response.end(document.replaceAll('ADMIN', shown.door.baseURL));
      });
      const elsewhere = await listen(evil, '/');
      onTestFinished(() => elsewhere.close());
      target = `${shown.door.baseURL}/accounts/mallory/grants`;
      // Another port is another origin of the same site: the browser sends the cookie along.
      const [name = '', value = ''] = COOKIE.split('=');
      await shown.context.addCookies([{ name, value, url: shown.door.baseURL, sameSite: 'Strict' }]);
      page = shown.page;
      await page.goto(elsewhere.baseURL);
    };

    const GRANT = '{"id":"g1","amount":"100.00"}';

    it.each(['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data'])(
      'a form of type %s changes nothing',
      async (type) => {
        const name = GRANT.replace('}', ',"x":"').replaceAll('"', '&quot;');
        await start(
          `<form method="post" enctype="${type}" action="ADMIN/accounts/mallory/grants"><input name="${name}" value="&quot;}"><button>`,
        );
        const answer = page.waitForResponse(target);
        await page.getByRole('button').click();
        expect((await answer).status()).toBe(403);
        expect(shown.door.audits).toMatchObject([
          { operator: 'ada', outcome: 'refused', code: 'cross_site_request' },
        ]);
        expect(await shown.gateway.router.accounts.get('mallory')).toBeUndefined();
      },
    );

    it.each([
      ['fetch, without asking', `{ method: 'POST', mode: 'no-cors', body }`],
      ['fetch of JSON', `{ method: 'POST', headers: { 'content-type': 'application/json' }, body }`],
      ['fetch with another method', `{ method: 'DELETE' }`],
    ])('%s changes nothing, and reads nothing', async (_name, init) => {
      await start('<p>');
      const outcome = await page.evaluate<string>(
        `(async (body) => fetch(${JSON.stringify(target)}, { credentials: 'include', ...${init} }).then(
           async (response) => response.type + (await response.text()),
           (error) => error.name))(${JSON.stringify(GRANT)})`,
      );
      expect(outcome).toMatch(/^(opaque|TypeError)$/);
      expect(await shown.gateway.router.accounts.get('mallory')).toBeUndefined();
      expect(shown.door.audits.filter((audit) => audit.outcome !== 'refused')).toEqual([]);
    });

    it('nothing is read by a script, a style or an image', async () => {
      await start('<p>');
      const events = await page.evaluate<string[]>(`
        Promise.all(['script', 'img', 'iframe'].map((name) => new Promise((resolve) => {
          const element = document.createElement(name);
          element.onload = () => resolve(name + ' ' + (element.contentDocument?.body?.innerText ?? 'load'));
          element.onerror = () => resolve(name + ' error');
          element.src = ${JSON.stringify(target.replace('/mallory/grants', ''))};
          document.body.append(element);
        })))`);
      expect(events).toEqual(['script error', 'img error', 'iframe load']);
      const frame = page.frames().find((each) => each !== page.mainFrame());
      expect(frame?.url()).toBe('chrome-error://chromewebdata/');
    });

    it('the page is shown in no frame', async () => {
      await start('<p>');
      const refusal = page.waitForEvent('console', (message) =>
        /frame-ancestors|X-Frame-Options/i.test(message.text()),
      );
      await page.evaluate(`
        const frame = document.createElement('iframe');
        frame.src = ${JSON.stringify(target.replace('/accounts/mallory/grants', '/'))};
        document.body.append(frame);`);
      await refusal;
      for (const frame of page.frames()) expect(await frame.locator('#page').count()).toBe(0);
    });
  });
});

async function expectHarmless(page: Page, where: string): Promise<void> {
  const found = await page.evaluate<unknown[]>(
    `[document.title, document.querySelectorAll('img, iframe, object, body script[src], [onerror]').length]`,
  );
  expect([where, ...found]).toEqual([where, expect.not.stringMatching(/^(mine|1)$/), 0]);
}

/** Each name that others write is a script. */
async function startHostileGateway(): Promise<Gateway> {
  const gateway = await startGateway({
    models: {
      '*': { targets: ['loopback/*'], pricing: PRICING, maxOutputTokens: 1000 },
      [IMAGE]: {
        targets: [`loopback/${IMAGE}`],
        pricing: PRICING,
        aliases: [`${IMAGE}2`],
        maxOutputTokens: 1000,
      },
    },
    dimensions: { user: true, tags: ['feature'] },
    retries: false,
    health: false,
  });
  const { router, provider } = gateway;
  const account = IMAGE;
  await router.credits.grant(account, '5.00', { id: 'g1' });
  await router.accounts.update(account, {
    name: SCRIPT,
    models: ['*', IMAGE],
    metadata: { [IMAGE]: SCRIPT },
  });
  const { key } = await router.keys.create({
    account,
    id: 'k1',
    name: IMAGE,
    models: ['*', IMAGE],
    metadata: { [IMAGE]: SCRIPT },
  });
  const ask = async (status: number): Promise<void> => {
    const settled = gateway.nextSettled();
    const response = await fetch(`${gateway.baseURL}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'x-request-id': '=1+1' },
      body: JSON.stringify({ ...QUESTION, model: IMAGE, user: SCRIPT, metadata: { feature: IMAGE } }),
    });
    const text = await response.text();
    if (response.status !== status) throw new Error(text);
    await settled;
  };
  provider.script = answerJson(
    JSON.stringify({ error: { message: SCRIPT, code: SCRIPT, type: SCRIPT } }),
    503,
  );
  await ask(503);
  provider.script = answerJson(
    completionBody({
      choices: [{ index: 0, message: { role: 'assistant', content: SCRIPT }, finish_reason: SCRIPT }],
    }),
  );
  await ask(200);
  await router.providers.eject('loopback', { by: SCRIPT, reason: SCRIPT });
  return { ...gateway, key };
}
