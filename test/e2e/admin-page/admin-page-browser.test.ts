import * as http from 'node:http';

import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { MemoryStore, StoreUnavailableError } from '../../../src/index.ts';
import { RequestIds } from '../../../src/ledger/contract/request-ids.ts';
import { type AdminDoor, OPERATOR_TOKEN, startAdmin } from '../../helpers/admin.ts';
import { CHROMIUM, launchChromium } from '../helpers/chromium.ts';
import { type Gateway, listen, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody } from '../../helpers/provider.ts';

if (!CHROMIUM) console.log('Skipped for want of a Chromium in /usr/bin: the usage page.');

const DAY_MS = 86_400_000;
const IMAGE = '<img src=x onerror="document.title=1">';

/** A store whose time can be another, and that can be away. */
class Store extends MemoryStore {
  static readonly clock = { ahead: 0 };
  away = false;

  constructor() {
    super({ now: () => Date.now() + Store.clock.ahead });
  }

  override async usage(...query: Parameters<MemoryStore['usage']>): ReturnType<MemoryStore['usage']> {
    if (this.away) throw new StoreUnavailableError('no');
    return await super.usage(...query);
  }
}

interface Spent {
  readonly account: string;
  readonly key: string;
  readonly model?: string;
  /** Nano-dollars. */
  readonly charged: bigint;
  readonly cost?: bigint;
  readonly ending?: 'finished' | 'client_gone' | 'upstream_error';
}

/** One request that is over, some days ago. */
async function spend(store: Store, daysAgo: number, { account, key, ...spent }: Spent): Promise<void> {
  const clock = { now: Date.now() - daysAgo * DAY_MS };
  Store.clock.ahead = -daysAgo * DAY_MS;
  const { charged, cost, model = 'acme/fast', ending = 'finished' } = spent;
  const requestId = new RequestIds(() => clock.now).next();
  const admitted = await store.admit({
    account,
    key,
    requestId,
    want: charged,
    min: charged,
    leaseMs: 1000,
    tokens: 1,
    notAfter: Infinity,
    externalKey: true,
  });
  expect(admitted.code).toBe('ok');
  const usage = {
    promptTokens: 900,
    cachedTokens: 450,
    completionTokens: 100,
    reasoningTokens: 0,
    source: 'upstream' as const,
    price: 'p1',
    ending,
    ...(cost !== undefined && { cost }),
  };
  await store.settle({ account, requestId, amount: charged, key, model, usage, force: false });
  Store.clock.ahead = 0;
}

describe.skipIf(!CHROMIUM)('the usage page in a browser', () => {
  let browser: Browser;
  let context: BrowserContext;
  let store: Store;
  let gateway: Gateway;
  let door: AdminDoor;
  /** What no test wants: an error of the page, or a request to somewhere else. */
  let problems: string[];

  beforeAll(async () => {
    browser = await launchChromium();
  });

  afterAll(() => browser.close());

  beforeEach(async () => {
    store = new Store();
    problems = [];
    gateway = await startGateway({ store }, undefined, '0.00');
    door = await startAdmin({ router: gateway.router });
  });

  afterEach(async () => {
    await context.close();
    await door.close();
    await gateway.close();
    expect(problems).toEqual([]);
  });

  async function newContext(options: BrowserContextOptions = {}): Promise<void> {
    context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    context.on('request', (request) => {
      const url = request.url();
      if (!url.startsWith(`${new URL(door.baseURL).origin}/`) && !url.startsWith('data:'))
        problems.push(`asked ${url}`);
    });
    context.on('console', (message) => {
      // A browser says so of each answer that is a refusal.
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) {
        problems.push(message.text());
      }
    });
    context.on('weberror', (error) => problems.push(error.error().message));
  }

  async function open(path = ''): Promise<Page> {
    const page = await context.newPage();
    await page.goto(door.baseURL + path);
    return page;
  }

  async function signIn(page: Page): Promise<void> {
    await page.getByLabel('Token').fill(OPERATOR_TOKEN);
    await page.keyboard.press('Enter');
    await page.locator('#report').waitFor();
  }

  async function openSignedIn(options: BrowserContextOptions = {}): Promise<Page> {
    await newContext(options);
    const page = await open();
    await signIn(page);
    return page;
  }

  const text = (page: Page, selector: string): Promise<string> => page.locator(selector).innerText();
  const rows = async (page: Page, id: string): Promise<string[]> => {
    const all = page.locator(`#${id} > *`);
    await expect.poll(() => all.allInnerTexts()).not.toContain('Loading …');
    return (await all.allInnerTexts()).map((row) => row.replace(/\s+/g, ' ').trim());
  };

  async function seed(): Promise<void> {
    await door.router.credits.grant('northwind', '10.00', { id: 'g1' });
    await door.router.credits.grant('globex', '4.00', { id: 'g2' });
    await door.router.credits.grant('initech', '7.00', { id: 'g3' });
    await spend(store, 1, { account: 'northwind', key: 'k1', charged: 750_000_000n });
    await spend(store, 1, { account: 'globex', key: 'k2', charged: 3_000_000_000n, model: 'acme/large' });
    await spend(store, 0, { account: 'northwind', key: 'k1', charged: 1_250_000_000n, cost: 1_000_000_000n });
  }

  describe('with usage of two days', () => {
    beforeEach(seed);

    it('says in short what was charged, earned, asked for and left', async () => {
      const page = await openSignedIn();
      expect(await text(page, '#charged')).toBe('$5.00');
      expect(await text(page, '#margin')).toBe('$0.25');
      expect(await text(page, '#margin-note')).toBe('20% · cost $1.00\nknown for 25%');
      expect(await text(page, '#requests')).toBe('3');
      expect(await text(page, '#tokens')).toBe('3,000');
      expect(await text(page, '#tokens-note')).toBe('2,700 in, 50% cached\n300 out');
      expect(await text(page, '#balance')).toBe('$16.00');
    });

    it('draws each day as a bar as high as its charge, and each model as a piece of it', async () => {
      const page = await openSignedIn();
      const heights: number[][] = await page.evaluate(`
        [...document.querySelectorAll('#daily .column')].map((column) =>
          [...column.querySelectorAll('path')].map((piece) => piece.getBBox().height))`);
      expect(heights).toHaveLength(30);
      const [yesterday = [], today = []] = heights.slice(-2);
      expect(heights.slice(0, -2).flat()).toEqual([]);
      expect(yesterday).toHaveLength(2);
      expect(today).toHaveLength(1);
      const total = yesterday.reduce((sum, height) => sum + height, 1);
      expect(total / today[0]!).toBeCloseTo(3.75 / 1.25, 1);
      expect(await rows(page, 'legend')).toEqual(['acme/large', 'acme/fast']);
    });

    it('tells the numbers of a day where the arrow keys go', async () => {
      const page = await openSignedIn();
      await page.locator('#daily').focus();
      await page.keyboard.press('ArrowLeft');
      const told = (await text(page, '#tooltip')).replace(/\s+/g, ' ');
      expect(told).toContain('$3.75 acme/fast $0.75 acme/large $3.00 Cost unknown Requests 2');
      expect(await text(page, '#spoken')).toContain('$3.75: acme/fast $0.75, acme/large $3.00');
      await page.keyboard.press('Escape');
      expect(await page.locator('#tooltip').isVisible()).toBe(false);
    });

    it('ranks models and keys by what they were charged', async () => {
      const page = await openSignedIn();
      expect(await rows(page, 'models')).toEqual([
        'acme/large 1 request $3.00',
        'acme/fast 2 requests $2.00',
      ]);
      expect(await rows(page, 'keys')).toEqual([
        'k2 globex 1 request $3.00',
        'k1 northwind 2 requests $2.00',
      ]);
      const widths = await page
        .locator('#models rect:not(.rail)')
        .evaluateAll((bars) => bars.map((bar) => bar.getAttribute('width')));
      expect(widths).toEqual(['100%', `${(2 / 3) * 100}%`]);
    });

    it('has the same numbers as a table', async () => {
      const page = await openSignedIn();
      await page.getByText('The same as a table').click();
      const [today = '', yesterday = ''] = await rows(page, 'daily-rows');
      expect(today).toMatch(/ 1 0 0 1,000 \$1\.25 \$1\.00$/);
      expect(yesterday).toMatch(/ 2 0 0 2,000 \$3\.75 –$/);
    });

    it('sorts accounts, finds them, and shows the low ones', async () => {
      const page = await openSignedIn();
      const names = async (): Promise<string[]> =>
        (await rows(page, 'accounts-rows')).map((row) => row.split(' ')[0]!);
      expect(await rows(page, 'accounts-rows')).toEqual([
        'globex low $3.00 1 – $1.00 2 days',
        'northwind $2.00 2 – $8.00 28 days',
        'acct $0.00 0 – $0.00 –',
        'initech $0.00 0 – $7.00 –',
      ]);
      await page.getByRole('button', { name: 'Balance' }).click();
      expect(await names()).toEqual(['acct', 'globex', 'initech', 'northwind']);
      await page.getByRole('button', { name: 'Balance' }).click();
      expect(await names()).toEqual(['northwind', 'initech', 'globex', 'acct']);
      await page.getByLabel('Search accounts').fill('INI');
      expect(await names()).toEqual(['initech']);
      await page.getByLabel('Search accounts').fill('');
      await page.getByRole('button', { name: '1 low' }).click();
      expect(await names()).toEqual(['globex']);
    });

    it('shows one account alone, of fewer days, and says so in its address', async () => {
      const page = await openSignedIn();
      await page.getByLabel('Account', { exact: true }).selectOption('northwind');
      await expect.poll(() => text(page, '#charged')).toBe('$2.00');
      expect(await text(page, '#balance')).toBe('$8.00');
      await page.getByRole('button', { name: '7 days' }).click();
      await expect.poll(() => page.locator('#daily .column').count()).toBe(7);
      expect(new URL(page.url()).hash).toBe('#days=7&account=northwind');
      await page.reload();
      await expect.poll(() => text(page, '#charged')).toBe('$2.00');
    });

    it('shows the account that was chosen last, whichever answer comes last', async () => {
      const page = await openSignedIn();
      const asked = Promise.withResolvers<void>();
      const held = Promise.withResolvers<void>();
      await page.route('**/usage?*account=northwind*', async (route) => {
        asked.resolve();
        await held.promise;
        await route.continue();
      });
      const account = page.getByLabel('Account', { exact: true });
      await account.selectOption('northwind');
      await asked.promise;
      await account.selectOption('globex');
      await expect.poll(() => text(page, '#charged')).toBe('$3.00');
      const answered = page.waitForResponse(/usage.*account%2Ckey&account=northwind/);
      held.resolve();
      await (await answered).finished();
      await page.evaluate(
        'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))',
      );
      expect(await text(page, '#charged')).toBe('$3.00');
    });

    it('shows what it last knew, and that it is old, while the store is unavailable', async () => {
      const page = await openSignedIn();
      store.away = true;
      await page.getByRole('button', { name: '7 days' }).click();
      await page.getByText('The credit store is unavailable. Showing data as of').waitFor();
      expect(await text(page, '#charged')).toBe('$5.00');
      store.away = false;
      await page.locator('#notice').waitFor({ state: 'hidden' });
      await expect.poll(() => page.locator('#daily .column').count()).toBe(7);
    });

    it.each(['light', 'dark'] as const)(
      'is readable in %s, and can be told to be the other',
      async (scheme) => {
        const page = await openSignedIn({ colorScheme: scheme });
        const other = scheme === 'light' ? 'dark' : 'light';
        expect(await lightness(page)).toBe(scheme);
        await page.getByRole('button', { name: 'Theme: system' }).click();
        expect(await lightness(page)).toBe('light');
        await page.getByRole('button', { name: 'Theme: light' }).click();
        expect(await lightness(page)).toBe('dark');
        await page.reload();
        expect(await lightness(page)).toBe('dark');
        await page.getByRole('button', { name: 'Theme: dark' }).click();
        await page.emulateMedia({ colorScheme: other });
        expect(await lightness(page)).toBe(other);
      },
    );

    it('fits every screen, with the longest of names', async () => {
      const account = 'x'.repeat(64);
      await door.router.credits.grant(account, '1234567.00', { id: 'g1' });
      const model = `acme/${'y'.repeat(200)}`;
      await spend(store, 0, { account, key: 'z'.repeat(64), charged: 123_456_000_000_000n, model });
      const page = await openSignedIn();
      for (const width of [360, 390, 768, 900, 1600]) {
        await page.setViewportSize({ width, height: 844 });
        const wide = `[...document.querySelectorAll('html, .card, .tile *')]
          .filter((box) => box.scrollWidth > box.clientWidth && box.clientWidth > 0).map((box) => box.outerHTML.slice(0, 80))`;
        await expect.poll(() => page.evaluate(wide), { message: `${width} pixels` }).toEqual([]);
      }
    });
  });

  it('says that nothing was used, where nothing was', async () => {
    const page = await openSignedIn();
    await page.getByText('No usage in the last 30 days.').waitFor();
    await page.getByText('No running requests.').waitFor();
    await page.getByText('This process has sent no requests yet.').waitFor();
  });

  it('counts a credit limit as left', async () => {
    await door.router.credits.grant('invoiced', '1.00', { id: 'g1' });
    await door.router.credits.setCreditLimit('invoiced', '30.00');
    await spend(store, 0, { account: 'invoiced', key: 'k1', charged: 2_000_000_000n });
    const page = await openSignedIn();
    const [row] = await rows(page, 'accounts-rows');
    expect(row).toBe('invoiced $2.00 1 – −$1.00 101 days');
    expect(await page.getByRole('button', { name: / low$/ }).count()).toBe(0);
    await door.router.credits.setCreditLimit('invoiced', '1.00');
    await page.reload();
    await page.getByRole('button', { name: '1 low' }).waitFor();
    expect((await rows(page, 'accounts-rows'))[0]).toMatch(/nothing left$/);
  });

  it('shows 25 of many accounts and more when asked, without their days', async () => {
    for (let i = 100; i <= 200; i++) await door.router.credits.grant(`a${i}`, '9.00', { id: 'g1' });
    await spend(store, 0, { account: 'a150', key: 'k1', charged: 3_000_000_000n });
    const page = await openSignedIn();
    expect((await rows(page, 'accounts-rows'))[0]).toBe('a150 $3.00 1 – $6.00 60 days');
    await expect.poll(() => page.locator('#accounts-rows > tr').count()).toBe(25);
    expect(await page.locator('.trend').count()).toBe(0);
    await page.getByRole('button', { name: 'Show more' }).click();
    await expect.poll(() => page.locator('#accounts-rows > tr').count()).toBe(100);
  });

  it('shows a request while it runs, and how its provider does', async () => {
    await gateway.router.credits.grant('acct', '1.00', { id: 'g1' });
    const page = await openSignedIn();
    const answer = Promise.withResolvers<void>();
    gateway.provider.script = async (...exchange) => {
      await answer.promise;
      await answerJson(completionBody())(...exchange);
    };
    const asked = gateway.post(QUESTION);
    await page.locator('#live-rows', { hasText: 'acme/fast' }).waitFor();
    expect((await rows(page, 'live-rows'))[0]).toMatch(/^acme\/fast by loopback acct [\w-]+ whole \d/);
    expect((await rows(page, 'health-rows'))[0]).toBe('loopback upstream-model healthy – – 1');
    answer.resolve();
    await asked;
    await page.getByText('No running requests.').waitFor();
    expect((await rows(page, 'health-rows'))[0]).toMatch(
      /^loopback upstream-model healthy – \d[\d.]* m?s –$/,
    );
  });

  it('asks nothing while the page is hidden', async () => {
    const page = await openSignedIn();
    await hide(page, true);
    // What it asked before is reported late.
    await page.waitForTimeout(1000);
    let asked = 0;
    context.on('request', () => (asked += 1));
    await page.waitForTimeout(3500);
    expect(asked).toBe(0);
    await hide(page, false);
    await expect.poll(() => asked).toBeGreaterThan(0);
  });

  it('asks for a token, and keeps it in its tab alone', async () => {
    await newContext();
    const page = await open();
    await page.getByText('requires a token').waitFor();
    await page.getByLabel('Token').fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByText('rejected this token').waitFor();
    await signIn(page);
    await page.reload();
    await page.locator('#report').waitFor();
    expect(await page.evaluate('JSON.stringify([localStorage, document.cookie])')).not.toContain(
      OPERATOR_TOKEN,
    );

    const other = await open();
    await other.getByLabel('Token').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Token').waitFor();
    expect(await page.evaluate('sessionStorage.length')).toBe(0);
  });

  it('says that a token is no longer accepted, however many requests were refused', async () => {
    await door.close();
    let accepted = OPERATOR_TOKEN;
    door = await startAdmin({
      router: gateway.router,
      authorize: ({ headers }) => (headers.authorization === `Bearer ${accepted}` ? 'ada' : undefined),
    });
    const page = await openSignedIn();
    const url = page.url();
    // A page that is open would lose its token at its next poll, perhaps before it is loaded again.
    await page.goto('about:blank');
    accepted = 'another-token';
    await page.goto(url, { waitUntil: 'networkidle' });
    expect(await text(page, '#sign-in-why')).toBe('The admin API rejected this token.');
  });

  it('shows no form to a browser whose cookie says who it is', async () => {
    await door.close();
    door = await startAdmin({
      router: gateway.router,
      authorize: ({ headers }) => (headers.cookie === 'session=ada' ? 'ada' : undefined),
    });
    await newContext();
    await context.addCookies([{ name: 'session', value: 'ada', url: door.baseURL }]);
    const page = await open();
    await page.locator('#report').waitFor();
    expect(await page.getByRole('button', { name: 'Sign out' }).isVisible()).toBe(false);
  });

  it('finds its API wherever it is mounted, with a slash at the end or without', async () => {
    await newContext();
    const page = await open('/');
    await signIn(page);
    expect(await text(page, '#charged')).toBe('$0.00');
    await page.close();
    await door.close();
    door = await startAdmin({
      router: gateway.router,
      basePath: '/ops/accounts',
      mount: (admin) => listen(http.createServer(admin), '/ops/accounts'),
    });
    const elsewhere = await open();
    await signIn(elsewhere);
    expect(await text(elsewhere, '#charged')).toBe('$0.00');
  });

  it('shows names as they are, whatever is in them', async () => {
    const { id } = await door.router.keys.create({ account: 'acme', name: IMAGE });
    await door.router.credits.grant('acme', '5.00', { id: 'g1' });
    await spend(store, 0, { account: 'acme', key: id, charged: 1_000_000_000n, model: `"'>${IMAGE}` });
    const page = await openSignedIn();
    await page.locator('#models').focus();
    expect(await text(page, '#tooltip')).toContain(`"'>${IMAGE}`);
    expect((await rows(page, 'keys'))[0]).toContain(IMAGE);
    expect((await rows(page, 'models'))[0]).toContain(`"'>${IMAGE}`);
    expect(await page.locator('img').count()).toBe(0);
    expect(await page.title()).toBe('Console');
  });

  async function lightness(page: Page): Promise<'light' | 'dark'> {
    const color: string = await page.evaluate('getComputedStyle(document.body).backgroundColor');
    const [red = 0] = /\d+/.exec(color)?.map(Number) ?? [];
    return red > 128 ? 'light' : 'dark';
  }

  async function hide(page: Page, hidden: boolean): Promise<void> {
    await page.evaluate(`
      Object.defineProperty(document, 'hidden', { value: ${hidden}, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));`);
  }
});
