import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';

import {
  type ChatCompletionsRouterOptions,
  type LedgerStore,
  MemoryStore,
  RedisStore,
  SqliteStore,
  StoreUnavailableError,
} from '../../../src/index.ts';
import { findingsOf } from '../../helpers/audit.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, answerStream, beginStream, completionBody, DONE, text } from '../../helpers/provider.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

const { DatabaseSync } = process.getBuiltinModule('node:sqlite');

/** What the usual answer costs. */
const COST = '0.000045';
const STREAM = { ...QUESTION, stream: true };

/**
 * Bugs by which other gateways lost money, or their users did, each by the names of its threads.
 *
 * Those of processes, connections and failovers are in chaos/.
 */
describe('concurrent requests', () => {
  it('64 at once, with credits for exactly 7, are 7 (one-api #2440, new-api #5690 #6609, LiteLLM #34732)', async () => {
    // Each holds 0.003142 USD.
    const gateway = await open({ holdMode: 'strict' }, '0.0225');
    const released = Promise.withResolvers<void>();
    gateway.provider.script = async (response, request) => {
      await released.promise;
      await answerJson(completionBody())(response, request);
    };
    let refused = 0;
    const asked = Array.from({ length: 64 }, async () => {
      const { status } = await gateway.post(QUESTION);
      if (status === 402) refused += 1;
      if (refused === 57) released.resolve();
      return status;
    });
    const statuses = await Promise.all(asked);
    expect(statuses.filter((status) => status === 200)).toHaveLength(7);
    expect(statuses.filter((status) => status === 402)).toHaveLength(57);
    expect(gateway.provider.received).toHaveLength(7);
    await comesTo(gateway, { held: '0.00', totalUsed: '0.000315' });
  });

  it('of an account without grants are refused, the first one too (LiteLLM #40095)', async () => {
    const gateway = await open({}, '0.00');
    const statuses = await Promise.all([1, 2, 3].map(async () => (await gateway.post(QUESTION)).status));
    expect(statuses).toEqual([402, 402, 402]);
    expect(gateway.provider.received).toEqual([]);
  });
});

describe('instances that start at once', () => {
  it('count what was spent once, not once each (LiteLLM #28247 #36926)', async () => {
    const server = await openRedis();
    const first = await open({ store: new RedisStore(server.url) });
    await asks(first);
    const others = await Promise.all(
      Array.from({ length: 6 }, () => open({ store: new RedisStore(server.url) })),
    );
    await Promise.all(others.map(asks));
    for (const gateway of [first, ...others]) {
      expect(await gateway.router.credits.balance('acct')).toMatchObject({ totalUsed: '0.000315' });
    }
  });
});

describe('a settlement that fails', () => {
  it('leaves the budget of its key closed, till it is posted (LiteLLM PR #30039)', async () => {
    const store = new AwayStore();
    const gateway = await open({ store, holdMode: 'strict' });
    store.isAway = true;
    expect((await gateway.post(QUESTION)).status).toBe(200);
    await expect.poll(() => store.refused).toBeGreaterThan(1);
    const refused = await gateway.post(QUESTION);
    expect(await refused.json()).toMatchObject({ error: { code: 'budget_exceeded' } });
    const settled = gateway.nextSettled();
    store.isAway = false;
    expect(await settled).toMatchObject({ charged: COST });
    await comesTo(gateway, { held: '0.00', totalUsed: COST });
    expect((await gateway.post(QUESTION)).status).toBe(200);
  });

  it('half-way is not posted at all, and later whole (new-api BillingSession.Settle)', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ccr-regressions-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, 'credits.db');
    const store = new SqliteStore(file);
    const gateway = await open({ store });
    const other = new DatabaseSync(file);
    onTestFinished(() => other.close());
    other.exec(
      "CREATE TRIGGER second_table BEFORE INSERT ON journal BEGIN SELECT RAISE(ABORT, 'no second table'); END",
    );
    expect((await gateway.post(QUESTION)).status).toBe(200);
    await expect.poll(() => gateway.errors.length).toBeGreaterThan(0);
    expect(await gateway.router.credits.balance('acct')).toMatchObject({
      totalUsed: '0.00',
      held: '0.003142',
    });
    expect(await store.journal('acct', 1n, 10)).toEqual([]);
    const settled = gateway.nextSettled();
    other.exec('DROP TRIGGER second_table');
    expect(await settled).toMatchObject({ charged: COST });
    await comesTo(gateway, { totalUsed: COST, held: '0.00', balance: '4.999955' });
    expect(await findingsOf(store)).toEqual([]);
  });
});

describe('a request of unknown cost', () => {
  it.each([
    // An image counts 2,000 tokens, two seconds of audio 100, beside the message and 1,000 tokens of output.
    ['an image', { type: 'image_url', image_url: { url: 'https://example.com/a.png' } }, 2_000_000n],
    ['audio', { type: 'input_audio', input_audio: { data: 'A'.repeat(10_668), format: 'mp3' } }, 100_000n],
  ])('has a hold all the same: %s (LiteLLM estimate_request_max_cost)', async (_what, part, atLeast) => {
    const gateway = await open({ holdMode: 'strict' });
    let held = 0n;
    gateway.provider.script = async (response, request) => {
      held = (await gateway.store.balance('acct'))?.held ?? 0n;
      await answerJson(completionBody())(response, request);
    };
    const question = { model: 'acme/fast', messages: [{ role: 'user', content: [part] }] };
    expect((await gateway.post(question)).status).toBe(200);
    expect(held).toBeGreaterThanOrEqual(3_000_000n + atLeast);

    const poor = await open({ holdMode: 'strict' }, '0.003');
    expect((await poor.post(question)).status).toBe(402);
    expect(poor.provider.received).toEqual([]);
  });
});

describe('a hold', () => {
  it('is given back when the dispatch fails (one-api RelayTextHelper, LiteLLM #27639)', async () => {
    let apiKey = (): string => {
      throw new Error('no key today');
    };
    const gateway = await open({ provider: { apiKey: () => apiKey() }, holdMode: 'strict' }, '0.004');
    for (let n = 0; n < 5; n++) expect((await gateway.post(QUESTION)).status).toBeGreaterThanOrEqual(500);
    await comesTo(gateway, { held: '0.00', totalUsed: '0.00' });
    apiKey = () => 'sk';
    expect((await gateway.post(QUESTION)).status).toBe(200);
  });

  it('is settled when the answer has no usage (one-api postConsumeQuota)', async () => {
    const gateway = await open();
    gateway.provider.script = answerJson(completionBody({ usage: undefined }));
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION);
    expect(await settled).toMatchObject({ voided: false, usageSource: 'estimated' });
    await comesTo(gateway, { held: '0.00' });
  });

  it('that is refunded adds nothing to what was granted (new-api #4211, PR #6795)', async () => {
    const clock = { now: Date.now() };
    const store = new MemoryStore({ now: () => clock.now });
    const gateway = await open({ store });
    gateway.provider.script = async (response) => {
      // Its lease ends while it runs, and then there is nothing to pay.
      clock.now += 200_000;
      await store.sweep(10);
      response.writeHead(500).end('{}');
    };
    for (let n = 0; n < 3; n++) await gateway.post(QUESTION);
    await comesTo(gateway, { balance: '5.00', held: '0.00', totalUsed: '0.00' });
    expect(await store.balance('acct')).toMatchObject({ granted: 5_000_000_000n });
    expect(await findingsOf(store)).toEqual([]);
  });

  it('grows, and ends, in one command: never a half of two (LiteLLM budget_hold_store.resize, PR #40956)', async () => {
    const server = await openRedis();
    const admin = new Redis(server.port);
    onTestFinished(() => admin.disconnect());
    const gateway = await open({
      store: new RedisStore(server.url),
      holdMode: 'adaptive',
      models: {
        'acme/fast': { targets: ['loopback/upstream-model'], pricing: PRICING, maxOutputTokens: 4000 },
      },
    });
    // 900 tokens of output, where 1,024 are held at first, and past 60 % of them more.
    const usage = { prompt_tokens: 9, completion_tokens: 900, total_tokens: 909 };
    gateway.provider.script = answerStream([
      ...Array.from({ length: 90 }, () => text('x'.repeat(40))),
      `data: ${JSON.stringify({ choices: [], usage })}\n\n`,
      DONE,
    ]);
    const stream = async (): Promise<void> => {
      const settled = gateway.nextSettled();
      await (await gateway.post(STREAM)).text();
      expect(await settled).toMatchObject({ charged: '0.002709' });
    };
    // The first of all has to send the scripts, and to load the functions.
    await stream();
    const monitor = await admin.monitor();
    onTestFinished(() => monitor.disconnect());
    const commands: string[] = [];
    monitor.on('monitor', (_time: string, [command = '']: readonly string[], source: string) => {
      if (source !== 'lua' && !['info', 'client'].includes(command.toLowerCase())) commands.push(command);
    });
    await stream();
    // An admit, an extension, a settlement.
    await expect
      .poll(() => commands.map((command) => command.toLowerCase()))
      .toEqual(['fcall', 'fcall', 'fcall']);
    const keys = await admin.keys('*');
    const lifetimes = await Promise.all(keys.map((key) => admin.ttl(key)));
    expect(lifetimes.filter((ttl) => ttl !== -1)).toEqual([]);
  });
});

describe('usage', () => {
  it('of zero is zero, and not missing (LiteLLM #37992)', async () => {
    const gateway = await open();
    const usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
    gateway.provider.script = answerJson(completionBody({ usage }));
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION);
    expect(await settled).toMatchObject({ charged: '0.00', usageSource: 'upstream', voided: false });
  });

  it('is not the text of an error, however long that is (new-api #5289)', async () => {
    const gateway = await open();
    const error = `data: ${JSON.stringify({ error: { message: 'x'.repeat(5000) } })}\n\n`;
    gateway.provider.script = answerStream([text('x'.repeat(40)), error]);
    const settled = gateway.nextSettled();
    await (await gateway.post(STREAM)).text();
    expect(await settled).toMatchObject({ usage: { completionTokens: 10 } });
  });
});

describe('a client that leaves', () => {
  it('pays for what it got: not nothing, not all (LiteLLM #14457, pollinations #5594, sub2api #4408)', async () => {
    const gateway = await open();
    gateway.provider.script = async (response, request) => {
      beginStream(response);
      response.write(text('x'.repeat(400)));
      await request.aborted;
    };
    const settled = gateway.nextSettled();
    const controller = new AbortController();
    const response = await gateway.post(STREAM, { signal: controller.signal });
    await response.body?.getReader().read();
    controller.abort();
    const { charged, usage } = await settled;
    expect(usage).toMatchObject({ completionTokens: 100 });
    expect(Number(charged)).toBeGreaterThan(0.0003);
    expect(Number(charged)).toBeLessThan(0.0004);
    await comesTo(gateway, { held: '0.00' });
  });
});

/** In memory, with keys that may spend 0.0031 USD a day. Takes no settlements while it is away. */
class AwayStore extends MemoryStore {
  isAway = false;
  refused = 0;

  override createKey(key: Parameters<LedgerStore['createKey']>[0]): ReturnType<LedgerStore['createKey']> {
    return super.createKey({ ...key, limits: { budgets: [{ amount: 3_200_000n, per: 'day' }] } });
  }

  override settle(command: Parameters<LedgerStore['settle']>[0]): ReturnType<LedgerStore['settle']> {
    if (!this.isAway) return super.settle(command);
    this.refused += 1;
    throw new StoreUnavailableError('no');
  }
}

async function open(
  options: Partial<ChatCompletionsRouterOptions> & Parameters<typeof startGateway>[0] = {},
  credits = '5.00',
): Promise<Gateway> {
  const gateway = await startGateway(options, undefined, credits);
  onTestFinished(() => gateway.close());
  return gateway;
}

async function openRedis(): Promise<RedisServer> {
  const server = await startRedis();
  onTestFinished(() => server.kill());
  return server;
}

/** Asks once, and waits until that is charged. */
async function asks(gateway: Gateway): Promise<void> {
  const settled = gateway.nextSettled();
  expect((await gateway.post(QUESTION)).status).toBe(200);
  expect(await settled).toMatchObject({ charged: COST });
}

async function comesTo(gateway: Gateway, balance: object): Promise<void> {
  await expect.poll(() => gateway.router.credits.balance('acct')).toMatchObject(balance);
}
