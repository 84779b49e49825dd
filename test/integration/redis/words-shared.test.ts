import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, it } from 'vitest';

import { MemoryStore, RedisStore } from '../../../src/index.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody, type Provider, startProvider } from '../../helpers/provider.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

let server: RedisServer;
let limited: Provider;
let spare: Provider;
let closings: (() => Promise<void>)[];
/** By the limited provider's word. */
let left: number;

beforeEach(async () => {
  closings = [];
  [server, limited, spare] = await Promise.all([startRedis(), startProvider(), startProvider()]);
  limited.script = (response, ...rest) => {
    left -= 1000;
    const said = { 'x-ratelimit-remaining-tokens': String(left), 'x-ratelimit-reset-tokens': '1m0s' };
    answerJson(completionBody(), 200, said)(response, ...rest);
  };
  spare.script = answerJson(completionBody());
});
afterEach(async () => {
  for (const close of closings) await close();
  await Promise.all([server.stop(), limited.close(), spare.close()]);
});

/** A process of the fleet, with a ledger of its own. */
async function start(): Promise<Gateway> {
  const redis = new RedisStore({ client: server.url, timeoutMs: 500 });
  const gateway = await startGateway({
    store: Object.assign(new MemoryStore(), { fleet: redis.fleet }),
    providers: {
      limited: { baseURL: limited.baseURL, apiKey: 'sk-limited' },
      spare: { baseURL: spare.baseURL, apiKey: 'sk-spare' },
    },
    models: {
      'acme/fast': { targets: ['limited/a', 'spare/b'], pricing: 'free', maxOutputTokens: 1000 },
    },
  });
  closings.push(async () => {
    await gateway.close();
    await redis.close();
  });
  return gateway;
}

/** Asks for some more than 1,000 tokens. */
async function ask(gateway: Gateway): Promise<void> {
  const response = await gateway.post({ ...QUESTION });
  expect(response.status).toBe(200);
  await response.text();
}

const servedBy = (): readonly number[] => [limited.received.length, spare.received.length];

// Retried: of words that are reported in the same moment, the greater one may count until the next answer (1 of 30 runs).
it(
  'what one process spends of the tokens that a provider says are left, makes another prefer the next target',
  { retry: 2 },
  async () => {
    const [one, other] = [await start(), await start()];
    left = 5000;
    for (const gateway of [one, one, other]) await ask(gateway);
    // By its own word, the other one has 2,000.
    expect(left).toBe(2000);
    await ask(one);
    expect([left, ...servedBy()]).toEqual([1000, 4, 0]);
    const redis = new Redis(server.url);
    closings.push(() => {
      redis.disconnect();
      return Promise.resolve();
    });
    const slot = async (): Promise<Record<string, string>> => {
      const [key = ''] = await redis.keys('*ccr:up:*');
      return redis.hgetall(key);
    };
    const reportsOf = (fields: Record<string, string>): readonly number[] =>
      Object.entries(fields).flatMap(([name, text]) =>
        name.startsWith('m') ? [Number.parseInt(text, 10)] : [],
      );
    // Of tokens: what was sent, what was sent by the word, what may be. Less than 1,000 where the word came before the requests' reports.
    const isHeard = ({ s2 }: Record<string, string>): boolean => {
      const [sent = 0, , most = Infinity] = s2?.split(' ').map(Number) ?? [];
      return most - sent <= 1000;
    };
    await expect.poll(async () => isHeard(await slot()), { timeout: 5000 }).toBe(true);
    const before = Math.max(...reportsOf(await slot()));
    // Both have reported since, and so heard of it.
    await expect
      .poll(async () => reportsOf(await slot()).filter((seq) => seq > before + 1), { timeout: 10_000 })
      .toHaveLength(2);
    await ask(other);
    expect(servedBy()).toEqual([4, 1]);
  },
);

it('a process goes on without Redis, and counts down what it was told', async () => {
  const gateway = await start();
  left = 5000;
  await ask(gateway);
  await server.stop();
  for (let n = 0; n < 4; n++) await ask(gateway);
  expect(left).toBe(1000);
  expect(servedBy()).toEqual([4, 1]);
});
