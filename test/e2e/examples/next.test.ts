import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';

import OpenAI from 'openai';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

import { CHROMIUM, launchChromium } from '../helpers/chromium.ts';
import { documentedBlocks } from '../helpers/documented-blocks.ts';
import { ENV } from '../../helpers/example.ts';

const ROOT = new URL('../../..', import.meta.url).pathname;
const NEXT = createRequire(import.meta.url).resolve('next/dist/bin/next');

let server: ChildProcess;
let origin: string;
let apiKey: string;

beforeAll(async () => {
  const env = { ...ENV, NEXT_TELEMETRY_DISABLED: '1' };
  await promisify(execFile)(process.execPath, [NEXT, 'build', `${ROOT}examples/next`], { env });
  server = spawn(process.execPath, ['examples/next/server.ts', 'start'], {
    env: { ...ENV, PORT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let printed = '';
  for (const output of [server.stdout!, server.stderr!]) {
    output.on('data', (chunk) => (printed += String(chunk)));
  }
  await vi.waitUntil(() => /sk-ccr-.*Ready in/s.test(printed), { timeout: 30_000 });
  [origin = ''] = /http:\/\/127\.0\.0\.1:\d+/.exec(printed) ?? [];
  [apiKey = ''] = /sk-ccr-\w+/.exec(printed) ?? [];
}, 240_000);

afterAll(async () => {
  server.kill('SIGTERM');
  await once(server, 'exit');
});

describe('examples/next', () => {
  it('serves the API at /v1 to the official client', async () => {
    const openai = new OpenAI({ baseURL: `${origin}/v1`, apiKey, maxRetries: 0 });
    const models = (await openai.models.list()).data.map(({ id }) => id);
    expect(models).toEqual(['demo/parrot', 'openai/gpt-4o-mini']);
    const stream = await openai.chat.completions.create({
      model: 'demo/parrot',
      messages: [{ role: 'user', content: 'Good morning' }],
      stream: true,
    });
    const times: number[] = [];
    for await (const _ of stream) times.push(performance.now());
    expect(times.at(-1)! - times[0]!).toBeGreaterThan(500);
  });
});

if (!CHROMIUM) {
  console.log('Skipped for want of a Chromium in /usr/bin: the page of examples/next.');
}

describe.skipIf(!CHROMIUM)('the page of examples/next', () => {
  let browser: Browser;
  let page: Page;

  beforeAll(async () => {
    browser = await launchChromium();
    page = await browser.newPage();
    await page.goto(origin);
  }, 60_000);

  afterAll(() => browser.close());

  const text = (selector: string): Promise<string> => page.locator(selector).last().innerText();
  const balance = async (): Promise<number> => Number((await text('output')).slice(1));

  async function ask(question: string): Promise<void> {
    await page.getByLabel('Message').fill(question);
    await page.keyboard.press('Enter');
  }

  it('asks with a session that only this site gives, and has no other secret', async () => {
    const asked: string[] = [];
    const sources: string[] = [await page.content()];
    const other = await browser.newPage();
    other.on('response', async (response) => {
      const { authorization = '' } = response.request().headers();
      if (authorization !== '') asked.push(authorization);
      if (/\.js/.test(response.url())) sources.push(await response.text());
    });
    await other.goto(origin, { waitUntil: 'networkidle' });
    await other.getByLabel('Message').fill('Hello');
    await other.keyboard.press('Enter');
    await other.locator('.paid').waitFor();
    await other.close();
    expect(asked.length).toBeGreaterThan(1);
    for (const authorization of asked) expect(authorization).toMatch(/^Bearer ses-/);
    expect(sources.length).toBeGreaterThan(2);
    for (const source of sources) expect(source).not.toMatch(/sk-ccr-|SESSION_SECRET/);

    const session = asked[0] ?? '';
    const elsewhere = { authorization: session, origin: 'https://other.example.com' };
    expect((await fetch(`${origin}/v1/models`, { headers: elsewhere })).status).toBe(403);
    const models = await fetch(`${origin}/v1/models`, { headers: { authorization: session } });
    expect(((await models.json()) as { data: object[] }).data).toMatchObject([{ id: 'demo/parrot' }]);
    const forged = { method: 'POST', headers: { origin: 'https://other.example.com' } };
    expect((await fetch(`${origin}/api/session`, forged)).status).toBe(403);
    const sandboxed = { method: 'POST', headers: { origin: 'null' } };
    expect((await fetch(`${origin}/api/session`, sandboxed)).status).toBe(403);
    expect((await fetch(`${origin}/api/session`, { method: 'POST' })).status).toBe(403);
    await page.reload();
  });

  it('shows the first words before the last, then what they cost, and less credits', async () => {
    const before = await balance();
    await ask('Good morning, Polly');
    await page.locator('.assistant .bubble', { hasText: '“Good' }).waitFor();
    const first = await text('.assistant .bubble');
    expect(first).not.toContain('kept every one');
    expect(await balance()).toBe(before);

    await page.locator('.paid').waitFor();
    expect((await text('.assistant .bubble')).startsWith(first)).toBe(true);
    expect(await text('.assistant .bubble')).toContain('kept every one');
    const paid = Number((await text('.paid')).replace('paid $', ''));
    expect(paid).toBeGreaterThan(0);
    expect(paid).toBeLessThan(0.02);
    expect(await balance()).toBeCloseTo(before - paid, 3);
  });

  it('pays for what was said before Stop, and no more', async () => {
    const before = await balance();
    await ask('Tell me a story about a ship');
    await page.locator('.assistant .bubble', { hasText: '“Tell me' }).waitFor();
    await page.getByLabel('Stop').click();
    await page.locator('.paid').nth(1).waitFor();
    expect(await text('.assistant .bubble')).not.toContain('from the sea');
    expect(before - (await balance())).toBeGreaterThan(0.001);
    expect(before - (await balance())).toBeLessThan(0.008);
  });

  it('shows why the router refuses', async () => {
    await ask('all my words '.repeat(9000));
    expect(await text('.error')).toMatch(
      /^This key.s budget of \$0\.20 .* but this request requires \$0\.\d+/,
    );
  });
});

describe.skipIf(!CHROMIUM)('the account page of examples/next', () => {
  let browser: Browser;
  let page: Page;
  let problems: string[];

  beforeAll(async () => {
    browser = await launchChromium();
    page = await browser.newPage({ colorScheme: 'light' });
    problems = [];
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text());
    });
    page.on('pageerror', (error) => problems.push(error.message));
  }, 60_000);

  afterAll(() => browser.close());

  it('is in the documentation as it is here', async () => {
    const shown = documentedBlocks().find(
      ({ page, language }) => page === 'docs/account-page.md' && language === 'tsx',
    );
    expect(shown?.code.trim()).toBe(
      (await readFile(`${ROOT}examples/next/app/account/account-page.tsx`, 'utf8')).trim(),
    );
  });

  it('is opened from the chat, asks for no key, and has the colors of the site and none of its other styles', async () => {
    await page.goto(origin);
    await page.getByRole('link', { name: 'Credits' }).click();
    await page.waitForURL(`${origin}/account`);
    expect(await page.locator('#balance').innerText()).toMatch(/^\$0\.\d\d/);
    await page.locator('.rest-bar').waitFor();
    expect(await page.locator('#sign-in').count()).toBe(0);
    const styleOf = (selector: string, name: string): Promise<string> =>
      page.evaluate<string>(
        `getComputedStyle(document.querySelector('.account-page').shadowRoot.querySelector('${selector}')).${name}`,
      );
    expect(await styleOf('.rest-bar .fill', 'fill')).toBe('rgb(15, 122, 82)');
    expect(await styleOf('h1', 'fontSize')).toBe('24px');
    expect(problems).toEqual([]);
  });

  it('asks a model in its playground with a session of the site, and goes away with the view', async () => {
    const asked: string[] = [];
    page.on('request', (request) => {
      if (request.url().endsWith('/v1/chat/completions'))
        asked.push(request.headers()['authorization'] ?? '');
    });
    await page.getByRole('link', { name: 'Playground' }).click();
    await page.getByLabel('Message').fill('Good morning');
    await page.keyboard.press('Enter');
    await page.locator('.charge').waitFor();
    expect(await page.locator('.answer').innerText()).toContain('Good');
    expect(asked.map((each) => each.slice(0, 11))).toEqual(['Bearer ses-']);
    await page.getByRole('link', { name: '← Chat' }).click();
    await page.getByRole('heading', { name: 'Say something' }).waitFor();
    expect(problems).toEqual([]);
  });
});
