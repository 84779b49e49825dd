import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import OpenAI from 'openai';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';

import { AdminApiError, createAdminClient, type LoggedRequest } from '../../../src/client.ts';
import { createChatCompletionsRouter } from '../../../src/index.ts';
import { completion, error, type FakeProvider, startFakeProvider } from '../../../src/testing.ts';
import { runCli, type Served, startServe } from '../../helpers/cli.ts';
import { startRedis } from '../../helpers/redis-server.ts';
import { CHROMIUM, launchChromium } from '../helpers/chromium.ts';
import { type ConsolePage, openConsole } from '../helpers/console.ts';

if (!CHROMIUM) console.log("Skipped for want of a Chromium in /usr/bin: an operator's day.");

const ADMIN_TOKEN = 'token-of-the-operator';
const PROVIDER_KEY = 'sk-faulty-0123456789-wxyz';
const LEAKED_BY_PROVIDER = 'sk-proj-0123456789abcdef';

/** A gateway process, its console, and clients of it. */
interface Place {
  readonly served: Served;
  readonly shown: ConsolePage;
  readonly admin: ReturnType<typeof createAdminClient>;
  readonly client: (key: string) => OpenAI;
}

interface World {
  readonly store: string;
  readonly faulty: FakeProvider;
  readonly healthy: FakeProvider;
  readonly keys: Record<'production' | 'spare' | 'newcomer', string>;
  /** Two processes with one Redis. */
  readonly places: readonly [Place, Place];
}

describe.skipIf(!CHROMIUM)("an operator's day", () => {
  let browser: Browser;

  beforeAll(async () => {
    browser = await launchChromium();
  });

  afterAll(() => browser.close());

  it('goes from a complaint to books that are right, in the console alone', async () => {
    const world = await startWorld(browser);
    await signIn(world);
    await findWhatFailed(world);
    await eject(world);
    await revokeLeakedKey(world);
    await changePlans(world);
    await refund(world);
    await readmit(world);
    await verify(world);
    const secrets = [PROVIDER_KEY, LEAKED_BY_PROVIDER, ADMIN_TOKEN, ...Object.values(world.keys)];
    for (const { served, shown } of world.places) {
      expect(shown.problems).toEqual([]);
      const log = JSON.stringify(served.log);
      expect(secrets.filter((secret) => log.includes(secret))).toEqual([]);
    }
    const changes = (): string[][] =>
      world.places.map(({ served }) =>
        served.log
          .filter(({ event }) => event === 'audit')
          .map(({ operator, action, account, outcome }) => [operator, action, account, outcome].join(' ')),
      );
    await expect
      .poll(changes)
      .toEqual([
        [
          'admin providers.eject  done',
          'admin keys.find  done',
          'admin keys.revoke acme done',
          'admin keys.find  done',
          'admin accounts.update newcomer done',
          'admin allowances.set newcomer done',
          'admin accounts.update newcomer done',
          'admin requests.refund acme done',
          'admin requests.refund acme repeated',
          'admin providers.readmit  done',
        ],
        [],
      ]);
    const { code, stdout } = await runCli(['verify'], { env: { CREDITS_STORE: world.store } });
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/^2 accounts, \d+ journal entries: no problems found\n$/),
    ]);
  });
});

async function startWorld(browser: Browser): Promise<World> {
  const redis = await startRedis();
  onTestFinished(() => redis.stop());
  const [faulty, healthy] = [await startFakeProvider(), await startFakeProvider()];
  onTestFinished(() => faulty.close());
  onTestFinished(() => healthy.close());
  const folder = mkdtempSync(join(tmpdir(), 'ccr-day-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  // An answer of the fake provider has 9 tokens at 0.001 and 12 at 0.002 USD.
  const facts = { pricing: { input: '1000', output: '2000' }, maxOutputTokens: 100 };
  const config = join(folder, 'gateway.json');
  writeFileSync(
    config,
    JSON.stringify({
      store: redis.url,
      providers: {
        faulty: { baseURL: faulty.baseURL, apiKey: PROVIDER_KEY },
        healthy: { baseURL: healthy.baseURL },
      },
      models: {
        'acme/chat': { targets: ['faulty/chat', 'healthy/chat'], ...facts },
        'acme/large': { targets: ['faulty/large'], ...facts },
      },
      retries: { perTarget: 0 },
    }),
  );
  const router = createChatCompletionsRouter({ store: redis.url, providers: {}, models: {} });
  await router.credits.grant('acme', '10.00', { id: 'welcome' });
  const { key: production } = await router.keys.create({ account: 'acme', name: 'production' });
  const { key: spare } = await router.keys.create({ account: 'acme', name: 'spare' });
  const { key: newcomer } = await router.keys.create({ account: 'newcomer', name: 'first' });
  await router.close();
  return {
    store: redis.url,
    faulty,
    healthy,
    keys: { production, spare, newcomer },
    places: [await startPlace(browser, config), await startPlace(browser, config)],
  };
}

async function startPlace(browser: Browser, config: string): Promise<Place> {
  const served = await startServe(['--config', config, '--admin'], { env: { ADMIN_TOKEN } });
  onTestFinished(async () => void (await served.stop()));
  const shown = await openConsole(browser, `${served.origin}/admin`);
  onTestFinished(() => shown.context.close());
  return {
    served,
    shown,
    admin: createAdminClient({ baseURL: `${served.origin}/admin`, token: ADMIN_TOKEN }),
    client: (apiKey) => new OpenAI({ baseURL: `${served.origin}/v1`, apiKey, maxRetries: 0 }),
  };
}

async function signIn({ places }: World): Promise<void> {
  for (const { shown } of places) {
    await shown.open('');
    await shown.page.getByText('requires a token').waitFor();
    await shown.page.keyboard.type(ADMIN_TOKEN);
    await shown.page.keyboard.press('Enter');
    await shown.page.getByText('admin', { exact: true }).waitFor();
  }
}

/** A customer names a request: what became of it, and what its provider said. */
async function findWhatFailed({ places: [place], faulty, healthy, keys }: World): Promise<void> {
  const { page } = place.shown;
  const message = `No capacity for ${LEAKED_BY_PROVIDER} and ${PROVIDER_KEY}.`;
  faulty.answer(error(503, { message, code: 'overloaded' }));
  healthy.answer(completion());
  const id = await refusal(place.client(keys.production), 'acme/large', 503);
  await expect.poll(() => logged(place.admin, id)).toBeDefined();
  await goTo(page, 'Requests');
  await page.getByLabel('Find a request by its x-request-id').click();
  await page.keyboard.type(id);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: id }).waitFor();
  await expect.poll(() => page.locator('.facts').innerText()).toContain('nothing is charged');
  expect(await place.shown.rows('attempt-rows').allInnerTexts()).toEqual([
    expect.stringMatching(/^faulty[^]*large[^]*503[^]*overloaded/),
  ]);
  await page.locator('#attempt-rows').getByRole('link', { name: 'faulty' }).click();
  const row = place.shown.rows('errors-faulty').filter({ hasText: id });
  const words = await row.innerText();
  expect(words).toContain(`No capacity for *** and ${'*'.repeat(PROVIDER_KEY.length)}.`);
  expect(await page.content()).not.toContain(LEAKED_BY_PROVIDER);
  const { data } = await place.admin.listProviders();
  expect(data.find(({ name }) => name === 'faulty')?.errors).toMatchObject([{ request_id: id, status: 503 }]);
}

/** In one process, for both. */
async function eject({ places, faulty, healthy, keys }: World): Promise<void> {
  const { page } = places[0].shown;
  await goTo(page, 'Providers');
  await page.getByRole('button', { name: 'Eject faulty', exact: true }).click();
  await page.getByLabel('Reason').click();
  await page.keyboard.type('503 since nine');
  await page.keyboard.press('Enter');
  for (const { shown, admin, client } of places) {
    await goTo(shown.page, 'Providers');
    await shown.page
      .locator('p.notice')
      .getByText('Ejected by admin until it is readmitted: 503 since nine')
      .waitFor();
    expect((await admin.listProviders()).data.find(({ name }) => name === 'faulty')).toMatchObject({
      state: 'ejected',
      ejection: { by: 'admin', reason: '503 since nine' },
    });
    const before = [faulty.requests.length, healthy.requests.length];
    const id = await answered(client(keys.production), 'acme/chat');
    expect([faulty.requests.length, healthy.requests.length]).toEqual([before[0], before[1]! + 1]);
    await expect
      .poll(() => logged(admin, id))
      .toMatchObject({ provider: 'healthy', attempts: [{ status: 200 }] });
  }
}

async function revokeLeakedKey({ places, keys }: World): Promise<void> {
  const [{ shown, admin }] = places;
  const { page } = shown;
  await goTo(page, 'Keys');
  await page.getByLabel('Secret or ID').click();
  await page.keyboard.insertText(keys.production);
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'production' }).waitFor();
  expect(await shown.rows('key-rows').allInnerTexts()).toEqual([expect.stringMatching(/acme[^]*active/)]);
  await page.getByRole('button', { name: 'Revoke production' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await page.getByText('revoked', { exact: true }).waitFor();
  expect(page.url()).not.toContain(keys.production);
  expect(await page.content()).not.toContain(keys.production);
  const states = (await admin.listKeys({ account: 'acme' })).data.map(
    ({ name, state }) => `${name} ${state}`,
  );
  expect(states.toSorted()).toEqual(['production revoked', 'spare active']);
  for (const { client } of places) {
    await refusal(client(keys.production), 'acme/chat', 401);
    await answered(client(keys.spare), 'acme/chat');
  }
}

/** A customer without credits gets a plan, and one model of two. */
async function changePlans({ places, keys }: World): Promise<void> {
  const [{ shown, admin }, other] = places;
  const { page } = shown;
  const client = other.client(keys.newcomer);
  await refusal(client, 'acme/chat', 402);
  await goTo(page, 'Accounts');
  await page.getByLabel('Search accounts').click();
  await page.keyboard.type('newc');
  await page.getByRole('link', { name: 'newcomer' }).click();
  await page.getByRole('button', { name: 'Policy' }).click();
  await page.getByLabel('Models').fill('acme/large');
  await page.keyboard.press('Enter');
  await page.locator('.facts').getByText('acme/large', { exact: true }).waitFor();
  await refusal(client, 'acme/chat', 403);
  await page.getByRole('button', { name: 'Allowance' }).click();
  await page.getByLabel('Amount in USD').fill('20.00');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: '$20.00' }).waitFor();
  await page.getByRole('button', { name: 'Policy' }).click();
  await page.getByLabel('Models').fill('acme/chat');
  await page.keyboard.press('Enter');
  await page.locator('.facts').getByText('acme/chat', { exact: true }).waitFor();
  expect(await admin.getAccount({ account: 'newcomer' })).toMatchObject({
    balance: '20.00',
    policy: { models: ['acme/chat'] },
  });
  await answered(client, 'acme/chat');
}

async function refund({ places: [place], keys }: World): Promise<void> {
  const { shown, admin, client } = place;
  const { page } = shown;
  const id = await answered(client(keys.spare), 'acme/chat');
  await expect.poll(() => logged(admin, id)).toMatchObject({ state: 'settled', charged: '0.033' });
  const balance = async (): Promise<string> => (await admin.getAccount({ account: 'acme' })).balance;
  // 10.00 less five answers.
  await expect.poll(balance).toBe('9.835');
  const refundWhole = async (): Promise<void> => {
    await page.getByRole('button', { name: 'Refund', exact: true }).click();
    await page.getByLabel('Reason').fill('a wrong answer');
    await page.keyboard.press('Enter');
  };
  await goTo(page, 'Requests');
  await page.getByRole('link', { name: id }).click();
  await page.locator('.facts').getByText('$0.0330', { exact: true }).waitFor();
  await refundWhole();
  await page.getByRole('button', { name: 'Refunded', exact: true, disabled: true }).waitFor();
  expect(await balance()).toBe('9.868');
  await page.reload();
  await refundWhole();
  await page.getByRole('button', { name: 'Already refunded', exact: true, disabled: true }).waitFor();
  expect(await balance()).toBe('9.868');
  await page.locator('.facts').getByRole('link', { name: 'acme' }).click();
  await page.getByRole('heading', { name: '$9.87' }).waitFor();
}

async function readmit({ places, faulty, keys }: World): Promise<void> {
  faulty.answer(completion());
  const { page } = places[0].shown;
  await goTo(page, 'Providers');
  await page.getByRole('button', { name: 'Readmit faulty', exact: true }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Readmit' }).click();
  for (const { shown, admin, client } of places) {
    await goTo(shown.page, 'Providers');
    await shown.page.getByRole('button', { name: 'Eject faulty', exact: true }).waitFor();
    const before = faulty.requests.length;
    const id = await answered(client(keys.spare), 'acme/chat');
    expect(faulty.requests).toHaveLength(before + 1);
    await expect.poll(() => logged(admin, id)).toMatchObject({ provider: 'faulty', status: 200 });
  }
}

async function verify({ places: [{ shown, admin }] }: World): Promise<void> {
  const { page } = shown;
  await goTo(page, 'Health');
  await page.getByRole('button', { name: 'Verify all accounts' }).click();
  const said = page.getByText(/^Verified: 2 accounts, \d+ journal entries, no problems found\.$/);
  await said.waitFor();
  expect(await admin.verifyAccounts()).toMatchObject({ accounts: 2, findings: [] });
}

async function goTo(page: Page, view: string): Promise<void> {
  await page.getByRole('navigation').getByRole('link', { name: view }).click();
}

const messages = [{ role: 'user' as const, content: 'Say hello.' }];

/** Asks, and gives the `x-request-id` of the answer. */
async function answered(client: OpenAI, model: string): Promise<string> {
  const { data, response } = await client.chat.completions.create({ model, messages }).withResponse();
  expect(data.choices[0]?.message.content).toBe('Hello there.');
  return response.headers.get('x-request-id') ?? '';
}

/** Asks, and gives the `x-request-id` of the refusal. */
async function refusal(client: OpenAI, model: string, status: number): Promise<string> {
  const thrown: unknown = await client.chat.completions.create({ model, messages }).catch((cause) => cause);
  if (!(thrown instanceof OpenAI.APIError)) throw new Error(`${model} was answered`, { cause: thrown });
  expect(thrown.status).toBe(status);
  expect(thrown.message).not.toContain(PROVIDER_KEY);
  return thrown.requestID ?? '';
}

/** A request as the log has it; undefined until then. */
async function logged(admin: Place['admin'], request: string): Promise<LoggedRequest | undefined> {
  return admin.getRequest({ request }).catch((thrown: unknown) => {
    if (thrown instanceof AdminApiError && thrown.code === 'request_not_found') return undefined;
    throw thrown;
  });
}
