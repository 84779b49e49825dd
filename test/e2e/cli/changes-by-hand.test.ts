import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import { createAdminClient, type AdminClient } from '../../../src/client.ts';
import { type FakeProvider, startFakeProvider } from '../../../src/testing.ts';
import { type LogLine, runCli, type Served, startServe } from '../../helpers/cli.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

const ADMIN_TOKEN = 'token-of-24-characters-x';
const QUESTION = { model: 'acme/chat', messages: [{ role: 'user', content: 'Say hello.' }] };
/** Of a price of 1 and 3 USD per million tokens: 9 tokens of prompt and 12 of answer. */
const REQUEST_COST = '0.000045';

interface Process extends Served {
  readonly admin: AdminClient;
}

let redis: RedisServer;
let main: FakeProvider;
let spare: FakeProvider;
let folder: string;
let store: string;
let key: string;
const running: Served[] = [];

beforeAll(async () => {
  redis = await startRedis();
});

afterAll(async () => {
  await redis.stop();
});

beforeEach(async () => {
  [main, spare] = [await startFakeProvider(), await startFakeProvider()];
  folder = mkdtempSync(join(tmpdir(), 'ccr-by-hand-'));
});

afterEach(async () => {
  for (const served of running.splice(0)) {
    served.process.kill('SIGKILL');
    if (served.process.exitCode === null && served.process.signalCode === null)
      await once(served.process, 'exit');
  }
  await Promise.all([main.close(), spare.close()]);
  rmSync(folder, { recursive: true });
});

/** An account with credits in the store, and a config of it. */
async function prepare(storeUrl: string, ofMain: object = {}): Promise<void> {
  store = storeUrl;
  const router = createChatCompletionsRouter({ store, providers: {}, models: {} });
  await router.credits.grant('acme', '5.00', { id: 'welcome' });
  ({ key } = await router.keys.create({ account: 'acme' }));
  await router.close();
  const pricing = { input: '1', output: '3' };
  const config = {
    store,
    providers: {
      main: { baseURL: main.baseURL, apiKey: 'sk-main', ...ofMain },
      spare: { baseURL: spare.baseURL, apiKey: 'sk-spare' },
    },
    models: {
      'acme/chat': {
        // Only if main is ejected, or has the weight 0, is spare asked first.
        targets: [
          { provider: 'main', model: 'm', weight: 1e9, cost: pricing },
          { provider: 'spare', model: 's', weight: 1e-9 },
        ],
        strategy: 'weighted',
        pricing,
        maxOutputTokens: 1000,
      },
    },
  };
  writeFileSync(join(folder, 'gateway.json'), JSON.stringify(config));
}

async function start(): Promise<Process> {
  const args = ['--admin', '--config', 'gateway.json'];
  const served = await startServe(args, { cwd: folder, env: { ADMIN_TOKEN } });
  running.push(served);
  const admin = createAdminClient({ baseURL: `${served.origin}/admin`, token: ADMIN_TOKEN });
  return { ...served, admin };
}

/** Which of the providers answered. */
async function ask({ origin }: Process): Promise<string> {
  const before = main.requests.length;
  const response = await fetch(`${origin}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(QUESTION),
  });
  await response.text();
  expect(response.status).toBe(200);
  return main.requests.length > before ? 'main' : 'spare';
}

async function providers(on: Process, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runCli(['providers', ...args, '--url', `${on.origin}/admin`], {
    env: { ADMIN_TOKEN },
  });
  expect([code, stderr]).toEqual([0, '']);
  return stdout.trim();
}

/** The next lines of these processes that tell of the event. */
function eachLogs(processes: readonly Process[], event: string): Promise<LogLine[]> {
  const after = processes.map(({ log }) => log.length);
  return vi.waitUntil(
    () => {
      const found = processes.flatMap(
        ({ log }, n) => log.slice(after[n]).find((line) => line.event === event) ?? [],
      );
      return found.length === processes.length && found;
    },
    { timeout: 20_000, interval: 10 },
  );
}

async function mainWeight({ admin }: Process): Promise<number | undefined> {
  const { data } = await admin.listModels();
  return data[0]?.targets[0]?.weight;
}

const STORES = [
  ['SQLite', () => `sqlite:${join(folder, 'credits.db')}`],
  ['Redis', () => `${redis.url}/0?prefix=${folder.slice(-6)}:`],
] as const;

describe.each(STORES)('processes that share a %s store', { timeout: 60_000 }, (_name, storeUrl) => {
  it('all leave out what one ejects, until it is readmitted in any, also after restarts', async () => {
    await prepare(storeUrl());
    const [one, two, three] = await Promise.all([start(), start(), start()]);
    expect(await Promise.all([one, two, three].map(ask))).toEqual(['main', 'main', 'main']);

    const ejected = eachLogs([one, two, three], 'target_ejected');
    const said = await providers(one, 'eject', 'main', '--reason', 'wrong answers');
    expect(said).toBe('main: ejected');
    for (const line of await ejected) {
      expect(line).toMatchObject({ provider: 'main', by: 'admin', reason: 'wrong answers', byHand: true });
    }
    expect(await one.logged('audit')).toMatchObject({ action: 'providers.eject', operator: 'admin' });
    expect(await ask(two)).toBe('spare');
    expect(await ask(three)).toBe('spare');

    await Promise.all([one, two, three].map((each) => each.stop()));
    const [four, five] = await Promise.all([start(), start()]);
    expect((await four.admin.listProviders()).data[0]).toMatchObject({
      state: 'ejected',
      ejection: { by: 'admin', reason: 'wrong answers' },
      changes_reach: 'all_processes',
    });
    expect(await ask(four)).toBe('spare');

    const recovered = eachLogs([four, five], 'target_recovered');
    await five.admin.readmitProvider({ name: 'main' });
    await recovered;
    expect(await ask(four)).toBe('main');
    expect(await ask(five)).toBe('main');
  });

  it('all take the weight that one sets, and give it back', async () => {
    await prepare(storeUrl());
    const [one, two] = await Promise.all([start(), start()]);
    expect(await providers(one, 'weight', 'acme/chat', 'main', '0')).toBe(
      'acme/chat: main/m 0, spare/s 1e-9',
    );
    await vi.waitUntil(async () => (await mainWeight(two)) === 0, { timeout: 20_000 });
    expect((await two.admin.listModels()).data[0]?.targets[0]?.weight_by_hand).toMatchObject({
      by: 'admin',
      configured: 1e9,
    });
    expect([await ask(one), await ask(two)]).toEqual(['spare', 'spare']);
    expect(await one.logged('audit')).toMatchObject({
      action: 'providers.weight',
      target: 'acme/chat at main/m',
      before: { weight: 1e9 },
      after: { weight: 0 },
    });
    await one.stop();
    await two.stop();
    const three = await start();
    expect(await ask(three)).toBe('spare');
    await providers(three, 'weight', 'acme/chat', 'main/m', '1000000000');
    expect(await providers(three, 'weight', 'acme/chat', 'spare', '1e-9')).toBe(
      'acme/chat: main/m 1000000000, spare/s 1e-9',
    );
    expect((await three.admin.listModels()).data[0]?.targets[0]).not.toHaveProperty('weight_by_hand');
    expect(await ask(three)).toBe('main');
  });

  it('stop a provider that has cost what it may, of all of them, until one readmits it', async () => {
    await prepare(storeUrl(), { stopAt: { amount: '0.0001', per: 'month' } });
    const [one, two] = await Promise.all([start(), start()]);
    expect([await ask(one), await ask(two)]).toEqual(['main', 'main']);
    await vi.waitUntil(async () => (await one.admin.listProviders()).data[0]?.stop_at?.spent === '0.00009', {
      timeout: 20_000,
    });
    const stopped = eachLogs([one, two], 'target_ejected');
    expect(await ask(two)).toBe('main');
    for (const line of await stopped) {
      expect(line).toMatchObject({ provider: 'main', stopAt: { amount: '0.0001', per: 'month' } });
    }
    expect([await ask(one), await ask(two)]).toEqual(['spare', 'spare']);
    expect(await providers(one)).toMatch(/^main +– +ejected/m);

    await one.stop();
    await two.stop();
    const [three, four] = await Promise.all([start(), start()]);
    expect(await ask(three)).toBe('spare');
    expect((await three.admin.listProviders()).data[0]).toMatchObject({
      state: 'ejected',
      ejection: { reason: 'It has cost what stopAt allows: 0.0001 USD per month.' },
      stop_at: { amount: '0.0001', per: 'month', spent: '0.000135' },
    });
    const resumed = eachLogs([three, four], 'target_recovered');
    await three.admin.readmitProvider({ name: 'main' });
    await resumed;
    expect([await ask(three), await ask(four)]).toEqual(['main', 'main']);
    expect((await four.admin.listProviders()).data[0]?.stop_at).toMatchObject({ resumed: true });
    expect(Number(REQUEST_COST) * 3).toBeCloseTo(0.000135, 9);
  });
});

describe('a process whose Redis is gone', { timeout: 60_000 }, () => {
  it('keeps what it knows, says so once, and takes no change', async () => {
    const own = await startRedis();
    try {
      await prepare(own.url);
      const one = await start();
      await one.admin.ejectProvider({ name: 'main' });
      await own.stop();
      const said = /^Changes of the routing by hand can't be read/;
      await vi.waitUntil(() => one.log.some(({ message }) => said.test(String(message))), {
        timeout: 20_000,
        interval: 10,
      });
      await expect(one.admin.readmitProvider({ name: 'main' })).rejects.toMatchObject({
        status: 503,
        code: 'credit_store_unavailable',
      });
      expect((await one.admin.listProviders()).data[0]).toMatchObject({ state: 'ejected' });
      const told = one.log.filter(({ message }) => String(message).includes('by hand'));
      expect(told).toHaveLength(1);
    } finally {
      await own.stop();
    }
  });
});
