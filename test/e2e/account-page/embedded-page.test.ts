import { readFileSync } from 'node:fs';

import axe from 'axe-core';
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { type AccountPage, type HostPage, startAccountPage } from '../helpers/account-page.ts';
import { CHROMIUM, launchChromium } from '../helpers/chromium.ts';

if (!CHROMIUM) console.log("Skipped for want of a Chromium in /usr/bin: the account page in a host's page.");

const HTML = `<!doctype html>
<html lang="en">
  <head><title>Host</title><link rel="stylesheet" href="/host.css" /></head>
  <body>
    <main>
      <h1>Billing of the host</h1>
      <button id="own">Own button</button>
      <div id="account"></div>
    </main>
    <script type="module" src="/host.js"></script>
  </body>
</html>`;

/** What would break a page that is not in a shadow root. */
const CSS = `
:root { --accent: #102030; --page: red; }
h1 { font-size: 41px; }
button { border: 7px solid rgb(1, 2, 3); }
input, table, .card, .page { display: none !important; }
#account { --account-accent: var(--accent); }
.column-340 { width: 340px; }
.column-700 { width: 700px; }
.column-1000 { width: 1000px; }`;

const page = (body: string, type: string): HostPage => ({ body, headers: { 'content-type': type } });

/** A strict policy: nothing inline, nothing of another origin. */
const HOST_PAGES: Readonly<Record<string, HostPage>> = {
  '/host': {
    body: HTML,
    headers: {
      'content-type': 'text/html',
      'content-security-policy':
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'",
    },
  },
  '/host.css': page(CSS, 'text/css'),
  '/host.js': page(
    "import { mountAccountPage } from '/account-page.js'; globalThis.mountAccountPage = mountAccountPage;",
    'text/javascript',
  ),
  '/account-page.js': page(
    readFileSync(new URL('../../../dist/account-page.js', import.meta.url), 'utf8'),
    'text/javascript',
  ),
};

describe.skipIf(!CHROMIUM)("the account page in a host's page", () => {
  let browser: Browser;
  let shown: AccountPage;

  beforeAll(async () => {
    browser = await launchChromium();
  });

  afterAll(() => browser.close());

  beforeEach(async () => {
    shown = await startAccountPage(browser, { isSignedOut: true, hostPages: HOST_PAGES });
    await shown.page.goto(`${shown.origin}/host`);
    await isLoaded();
  });

  afterEach(async () => {
    await shown.close();
    expect(shown.problems).toEqual([]);
  });

  /** By `evaluate`, which the page's policy does not stop: `waitForFunction` evaluates again inside of the page. */
  const isLoaded = async (): Promise<void> => {
    await expect
      .poll(() =>
        shown.page.evaluate('globalThis.mounted === undefined && globalThis.mountAccountPage !== undefined'),
      )
      .toBe(true);
  };
  const mount = (options: string): Promise<unknown> =>
    shown.page.evaluate(
      `void (globalThis.mounted = mountAccountPage(document.querySelector('#account'), ${options}))`,
    );
  const styleOf = (element: string, name: string): Promise<string> =>
    shown.page.evaluate<string>(`getComputedStyle(${element}).${name}`);
  const inside = (selector: string): string =>
    `document.querySelector('#account').shadowRoot.querySelector('${selector}')`;

  it('holds under a strict policy, and neither side has styles of the other', async () => {
    const before = await styleOf("document.querySelector('main')", 'maxWidth');
    await mount("{ api: '/account', title: 'Acme' }");
    await shown.page.getByLabel('API key').fill(shown.gateway.key);
    await shown.page.keyboard.press('Enter');
    await expect.poll(() => shown.page.locator('#balance').innerText()).toBe('$5.00');
    expect(await styleOf(inside('h1'), 'fontSize')).toBe('24px');
    expect(await styleOf("document.querySelector('h1')", 'fontSize')).toBe('41px');
    expect(await styleOf("document.querySelector('main')", 'maxWidth')).toBe(before);
    expect(await styleOf("document.querySelector('#own')", 'borderTopWidth')).toBe('7px');
    expect(await styleOf(inside('#sign-out'), 'borderTopWidth')).toBe('0px');
    expect(await styleOf(inside('.rest-bar .fill'), 'fill')).toBe('rgb(16, 32, 48)');
    expect(await styleOf(inside('.page'), 'color')).not.toBe('rgb(255, 0, 0)');
  });

  it('asks nothing without a token of the host, and goes on once there is one', async () => {
    const asked: string[] = [];
    shown.page.on('request', (request) => asked.push(request.url()));
    await mount("{ api: '/account', title: 'Acme', getToken: async () => globalThis.hostToken }");
    await shown.page.getByText('Sign in to Acme first, then reload.').waitFor();
    expect(asked).toEqual([]);
    await shown.page.evaluate(`globalThis.hostToken = '${shown.gateway.key}'`);
    await shown.page.getByRole('button', { name: 'Reload' }).click();
    await expect.poll(() => shown.page.locator('#balance').innerText()).toBe('$5.00');
    await shown.page.getByRole('link', { name: 'Playground' }).click();
    await shown.page.getByLabel('Message').fill('Hello');
    await shown.page.keyboard.press('Enter');
    await shown.page.locator('.charge').waitFor();
    expect(await shown.page.evaluate<number>('sessionStorage.length')).toBe(0);
    await shown.page.evaluate('globalThis.hostToken = undefined');
    await shown.page.getByRole('link', { name: 'Requests' }).click();
    await shown.page.getByText('Sign in to Acme first, then reload.').waitFor();
  });

  it('sends a key that was typed in place of the token of the host, until it is signed out', async () => {
    const mountEither = (): Promise<unknown> =>
      mount("{ api: '/account', signIn: 'either', getToken: async () => globalThis.hostToken }");
    const { page, gateway } = shown;
    await page.addInitScript("globalThis.hostToken = 'sk-ccr-ended'");
    await page.reload();
    await mountEither();
    await page.getByText('Enter one of your API keys').waitFor();
    const type = async (key: string): Promise<void> => {
      await page.getByLabel('API key').fill(key);
      await page.keyboard.press('Enter');
    };
    await type('sk-ccr-wrong');
    await page.getByRole('alert').getByText('This API key is not valid').waitFor();
    await type(gateway.key);
    await expect.poll(() => page.locator('#balance').innerText()).toBe('$5.00');
    await page.getByRole('link', { name: 'Requests' }).click();
    await page.locator('#report .card').first().waitFor();
    await page.reload();
    await mountEither();
    await page.locator('#report .card').first().waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await isLoaded();
    await mountEither();
    await page.getByText('Enter one of your API keys').waitFor();
    expect(shown.problems.filter((text) => !text.includes('status of 401'))).toEqual([]);
    shown.problems.splice(0, Infinity);
  });

  it('is taken out, mounted again, and mounted once at a time', async () => {
    await mount(`{ api: '/account', getToken: () => '${shown.gateway.key}' }`);
    await shown.page.locator('#balance').waitFor();
    await expect(mount("{ api: '/account' }")).rejects.toThrow('The element has an account page already');
    await shown.page.evaluate('globalThis.mounted.unmount()');
    await expect.poll(() => shown.page.locator('#account').innerText()).toBe('');
    await expect(mount("{ api: 'http://' }")).rejects.toThrow('api must be a URL, got "http://"');
    await mount(`{ api: '/account', getToken: () => '${shown.gateway.key}' }`);
    await shown.page.locator('#balance').waitFor();
  });

  it.each([340, 700, 1000])('fits a column of %d px in a wide window', async (width) => {
    await shown.page.setViewportSize({ width: 1600, height: 900 });
    await shown.page.evaluate(`document.querySelector('#account').className = 'column-${width}'`);
    await mount(`{ api: '/account', getToken: () => '${shown.gateway.key}' }`);
    for (const view of ['credits', 'usage', 'keys', 'requests', 'statements', 'playground']) {
      await shown.page.evaluate(`location.hash = '#/${view}'`);
      await shown.page.locator(`nav a[href="#/${view}"][aria-current]`).waitFor();
      await shown.page.locator('#report .card').first().waitFor();
      const over = await shown.page.evaluate<number[]>(`(() => {
        const page = ${inside('.page')};
        return [page, ...page.querySelectorAll('.scroll')].map((each) => each.scrollWidth - each.clientWidth);
      })()`);
      expect([view, Math.max(...over)]).toEqual([view, 0]);
    }
    expect(await shown.page.evaluate<number>(`${inside('.page')}.clientWidth`)).toBe(width);
  });

  it("has nothing that axe finds beside the host's own landmarks", async () => {
    await mount(`{ api: '/account', getToken: () => '${shown.gateway.key}' }`);
    await shown.page.locator('#grant-rows').waitFor();
    await shown.page.evaluate(axe.source);
    const found = await shown.page.evaluate<readonly string[]>(
      'axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + nodes.map(({ html }) => html)))',
    );
    expect(found).toEqual([]);
  });
});
