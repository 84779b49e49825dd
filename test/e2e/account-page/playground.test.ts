import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { chunk, completion, DONE, hang, reset, type Script, stream } from '../../../src/testing.ts';
import { answerJson } from '../../helpers/provider.ts';
import { type AccountPage, type AccountPageSetup, startAccountPage } from '../helpers/account-page.ts';
import { CHROMIUM, launchChromium } from '../helpers/chromium.ts';
import { python } from '../languages/toolchains.ts';

if (!CHROMIUM) console.log('Skipped for want of a Chromium in /usr/bin: the playground.');

const PYTHON = python('openai-3', 'openai_client.py');
const ROOT = new URL('../../..', import.meta.url).pathname;
const WELL = completion({ content: ['Hello', ' there.'], tokens: { prompt: 812, completion: 240 } });
const FULL = answerJson('{"error":{"message":"The engine is overloaded","code":"overloaded"}}', 503);

describe.skipIf(!CHROMIUM)('the playground', () => {
  let browser: Browser;
  let shown: AccountPage;

  beforeAll(async () => {
    browser = await launchChromium();
  });

  afterAll(() => browser.close());
  afterEach(() => shown.close());

  async function open(script: Script = WELL, setup: AccountPageSetup = {}): Promise<void> {
    shown = await startAccountPage(browser, setup);
    shown.gateway.provider.script = script;
    await shown.open('#/playground');
    await shown.page.locator('#message').waitFor();
  }

  async function say(text: string): Promise<void> {
    await shown.page.getByLabel('Message').fill(text);
    await shown.page.keyboard.press('Enter');
  }

  const answer = (): Promise<string> => shown.page.locator('.answer').last().innerText();

  it('shows words as they come, then the tokens and the charge of the request', async () => {
    let goOn: () => void = () => {};
    const gate = new Promise<void>((resolve) => (goOn = resolve));
    const usage = { choices: [], usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 } };
    await open(
      stream(
        chunk('First <b>words'),
        () => gate,
        chunk('</b> and last', 'stop'),
        `data: ${JSON.stringify(usage)}\n\n`,
        DONE,
      ),
    );
    await say('Hello');
    await expect.poll(answer).toBe('First <b>words');
    await shown.page.locator('#stop').waitFor();
    goOn();
    await expect.poll(answer).toBe('First <b>words</b> and last');
    await expect.poll(() => shown.page.locator('.charge').innerText()).toBe('$0.00016');
    await expect.poll(() => shown.page.locator('.turn-foot').innerText()).toContain('100 in, 20 out');
    await shown.page.locator('.turn-foot').getByRole('link', { name: 'Request' }).click();
    await shown.page.getByText('100 in, 20 out').waitFor();
    await shown.page.getByRole('link', { name: 'Playground' }).click();
    await expect.poll(answer).toBe('First <b>words</b> and last');
    expect(shown.problems).toEqual([]);
  });

  it('sends its settings and what was said before', async () => {
    await open();
    const { page, gateway } = shown;
    await page.getByLabel('System prompt').fill('Be brief.');
    await page.getByLabel('Temperature').fill('0.5');
    await page.getByLabel('Max tokens').fill('300');
    await say('One');
    await page.locator('.charge').waitFor();
    await say('Two');
    await expect.poll(() => page.locator('.charge').count()).toBe(2);
    const { body } = gateway.provider.received.at(-1) ?? {};
    expect(JSON.parse(String(body))).toMatchObject({
      temperature: 0.5,
      max_tokens: 300,
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'One' },
        { role: 'assistant', content: 'Hello there.' },
        { role: 'user', content: 'Two' },
      ],
    });
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByText('Ask something to begin.').waitFor();
  });

  it('stops an answer, and shows what was charged until then', async () => {
    await open(stream(chunk('Once upon'), hang));
    await say('Tell a story');
    await expect.poll(answer).toBe('Once upon');
    await shown.page.getByRole('button', { name: 'Stop' }).click();
    await shown.page.locator('.turn-foot').getByText('Stopped').waitFor();
    await shown.page.locator('.charge').waitFor();
    expect(await shown.page.locator('.failure').count()).toBe(0);
  });

  it('says kindly what failed, with its code and its request, and asks again', async () => {
    await open(FULL);
    const { page, gateway } = shown;
    await say('Hello');
    const failure = page.getByRole('alert');
    await failure.getByText('The service is busy or away at the moment.').waitFor();
    await failure.getByText('overloaded', { exact: true }).waitFor();
    const { requests } = await gateway.router.requestLog.search({});
    await expect.poll(() => failure.innerText()).toContain(requests[0]?.id ?? 'none');
    await page.getByText('Nothing was charged').waitFor();
    gateway.provider.script = WELL;
    await page.getByRole('button', { name: 'Try again' }).click();
    await expect.poll(answer).toBe('Hello there.');
    await expect.poll(() => page.locator('.turn').count()).toBe(1);
  });

  it('says that an answer broke off, and keeps what there was', async () => {
    await open(stream(chunk('Half of'), reset));
    await say('Hello');
    await shown.page.getByRole('alert').getByText('The answer broke off.').waitFor();
    expect(await answer()).toBe('Half of');
  });

  it('says that the credits do not suffice', async () => {
    await open();
    await shown.gateway.router.credits.adjust('acct', '-5.00', { id: 'a', reason: 'test' });
    await say('Hello');
    await shown.page.getByRole('alert').getByText('Your credits do not cover this request.').waitFor();
  });

  it("asks with a short-lived key where the host's session has signed in", async () => {
    await open(WELL, {
      isSignedOut: true,
      gateway: { sessions: { secret: 'a secret of the tests, of 32 characters or more' } },
      account: { whoIs: () => 'acct' },
    });
    const keys: string[] = [];
    shown.page.on('request', (request) => {
      const { authorization } = request.headers();
      if (authorization !== undefined) keys.push(authorization.slice(0, 11));
    });
    await say('Hello');
    await shown.page.locator('.charge').waitFor();
    expect(new Set(keys)).toEqual(new Set(['Bearer ses-']));
    await expect.poll(async () => (await shown.gateway.router.accounts.get('acct'))?.spent).toBe('0.001532');
    await shown.page.getByRole('link', { name: 'Requests' }).click();
    await expect.poll(() => shown.page.locator('#request-rows').innerText()).toMatch(/Session \S{8}\s/);
  });

  it("asks with one more key of the host's session where a budget is used up, and then no more", async () => {
    await open(WELL, {
      isSignedOut: true,
      gateway: { sessions: { secret: 'a secret of the tests, of 32 characters or more' } },
      account: { whoIs: () => 'acct' },
    });
    await shown.gateway.router.accounts.update('acct', { budget: { amount: '0.000001', per: 'month' } });
    const asked: string[] = [];
    shown.page.on('request', (request) => {
      if (request.method() === 'POST') asked.push(new URL(request.url()).pathname);
    });
    await say('Hello');
    await shown.page.getByRole('alert').getByText('A budget of your key or account is used up.').waitFor();
    expect(asked).toEqual([
      '/account/playground',
      '/v1/chat/completions',
      '/account/playground',
      '/v1/chat/completions',
    ]);
  });

  it('is the same request as a program, which never has the key', async () => {
    await open();
    const { page, gateway } = shown;
    await page.getByLabel('System prompt').fill(`It's "quoted" $HOME \\ and\ntwo lines`);
    await page.getByLabel('Max tokens').fill('300');
    await page.getByLabel('Message').fill("What's this?");
    await page.locator('#show-code').click();
    const codeOf = async (language: string): Promise<string> => {
      await page.getByRole('button', { name: language, exact: true }).click();
      return page.locator('#code').innerText();
    };
    const env = { PATH: process.env['PATH'], API_KEY: gateway.key };
    const run = async (command: string, args: readonly string[]): Promise<string> =>
      (await promisify(execFile)(command, args, { env, cwd: ROOT })).stdout;
    const curl = await codeOf('curl');
    expect(await run('sh', ['-c', curl])).toContain('data: [DONE]');
    const typescript = await codeOf('TypeScript');
    expect(await run(process.execPath, ['--input-type=module', '--eval', typescript])).toBe('Hello there.');
    const pythonCode = await codeOf('Python');
    expect(pythonCode).toContain(`base_url="${gateway.baseURL}", api_key=os.environ["API_KEY"]`);
    expect(curl + typescript + pythonCode).not.toContain(gateway.key);
    const asked = gateway.provider.received.map(({ body }) => JSON.parse(String(body)) as object);
    expect(asked).toHaveLength(2);
    for (const body of asked) {
      expect(body).toMatchObject({
        max_tokens: 300,
        messages: [
          { role: 'system', content: `It's "quoted" $HOME \\ and\ntwo lines` },
          { role: 'user', content: "What's this?" },
        ],
      });
    }
  });

  it.skipIf(PYTHON.missing)(
    'is the last request as a program once it was asked, also in Python',
    { timeout: 600_000 },
    async () => {
      await open();
      const { page, gateway } = shown;
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
      await page.getByLabel('System prompt').fill(`Say "no" to 'quotes', $HOME and \\n é 🦜`);
      await say('First question');
      await page.locator('.charge').waitFor();
      await say('Second question');
      await expect.poll(() => page.locator('.charge').count()).toBe(2);
      await page.locator('#show-code').click();
      await page.getByRole('button', { name: 'Python', exact: true }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Copy' }).click();
      await page.getByRole('button', { name: 'Copied' }).waitFor();
      const code = await page.evaluate<string>('navigator.clipboard.readText()');
      await PYTHON.prepare();
      const [command, ...args] = await PYTHON.program(code);
      const env = { ...process.env, API_KEY: gateway.key };
      const { stdout } = await promisify(execFile)(command, args, { env, cwd: PYTHON.cwd });
      expect(stdout).toBe('Hello there.');
      const [, asked, copied] = gateway.provider.received.map(
        ({ body }) => JSON.parse(String(body)) as object,
      );
      expect(copied).toMatchObject({ messages: Reflect.get(asked ?? {}, 'messages') });
      expect(Reflect.get(copied ?? {}, 'messages')).toHaveLength(4);
    },
  );
});
